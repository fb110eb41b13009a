// Programs that read the time stamp counter often: each argument names one part. The first line is what
// it has read; the second one says which of its sites are patched.
#define _GNU_SOURCE
#include "timeline.h"
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OFTEN = 300 };

// A function with one site: `read_NAME()` reads the counter by INSTRUCTION, then come the instructions REST.
#define SITE(name, instruction, rest)                                                                    \
	uint64_t read_##name(uint64_t *);                                                                \
	extern const uint8_t at_##name[];                                                                \
	__asm__(".text; .p2align 4; read_" #name ": push %rbx; push %rcx; at_" #name ": " instruction "; " \
		rest "; shl $32, %rdx; mov %eax, %eax; or %rdx, %rax; pop %rcx; pop %rbx; ret");

SITE(shift, "rdtsc", "nop")
SITE(load, "rdtsc", "mov 8(%rdi), %rcx; mov %rcx, (%rdi)")
SITE(two, "rdtsc", "mov %eax, %ebx; mov %ebx, %eax")
SITE(far, "rdtsc", "movabs $0x123456789abcdef, %rbx")
SITE(pushes, "rdtsc", "push %rbx; push %r12; pop %r12; pop %rbx")
SITE(fence, "rdtscp", "lfence")
SITE(short, "rdtscp", "nop; nop; nop")
SITE(processor, "rdtscp", "mov %ecx, 4(%rdi)")
// Not to be moved: relative to the instruction pointer, a jump, an atomic one.
SITE(relative, "rdtsc", "lea 0(%rip), %rbx")
SITE(jumps, "rdtsc", "jmp 9f; nop; 9:")
SITE(locked, "rdtsc", "lock orq $0, (%rdi)")
// The second reading comes by a jump to behind the first one.
SITE(middle, "xor %ebx, %ebx; jmp at_inside; at_inside: rdtsc; 8:", "shl $32, %rdx; or %rdx, %rax; shr $32, %rdx; "
     "inc %ebx; cmp $2, %ebx; jne 8b; mov %eax, %eax")
extern const uint8_t at_inside[];

static uint64_t seen;
static void see(uint64_t value) { seen = (seen ^ value) * 0x9e3779b97f4a7c15; }

static int is_patched(const uint8_t *at) { return *(volatile const uint8_t *)at == 0xe9; }

static void often(uint64_t (*read)(uint64_t *))
{
	uint64_t memory[2] = { 0xffffffffffffffff, 1 };
	for (int i = 0; i < OFTEN; i++)
		see(read(memory));
	see(memory[0]), see(memory[1]);
}

static int kinds(void)
{
	often(read_shift), often(read_load), often(read_two), often(read_far), often(read_pushes);
	often(read_fence), often(read_short), often(read_processor);
	often(read_relative), often(read_jumps), often(read_locked), often(read_middle);
	printf("%lx\n", (long)seen);
	printf("patched %d%d%d%d%d %d%d%d, never %d%d%d %d\n", is_patched(at_shift), is_patched(at_load),
	       is_patched(at_two), is_patched(at_far), is_patched(at_pushes), is_patched(at_fence),
	       is_patched(at_short), is_patched(at_processor), is_patched(at_relative),
	       is_patched(at_jumps), is_patched(at_locked), is_patched(at_inside));
	return 0;
}

// All registers, flags, MXCSR, the x87 stack and the red zone hold values around the site.
struct state {
	uint64_t general[13], unused; // without rsp, and rax and rdx, which are read
	uint64_t flags, zone[16], x87[2], mxcsr, masks[8];
	uint8_t vectors[32][64];
};
extern const uint8_t at_state[];
void around(struct state *from, struct state *to, int level);
// LEVEL: 0 for SSE, 1 for AVX, 2 for AVX-512.
__asm__(".macro first16 op, register, base, store\n"
	".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	".if \\store; \\op %\\register\\n, 336+64*\\n(\\base); .else; \\op 336+64*\\n(\\base), %\\register\\n; .endif\n"
	".endr; .endm\n"
	".macro avx512 base, store\n"
	"first16 vmovups, zmm, \\base, \\store\n"
	".irp n, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
	".if \\store; vmovups %zmm\\n, 336+64*\\n(\\base); .else; vmovups 336+64*\\n(\\base), %zmm\\n; .endif\n"
	".endr\n"
	".irp n, 0,1,2,3,4,5,6,7\n"
	".if \\store; kmovq %k\\n, 272+8*\\n(\\base); .else; kmovq 272+8*\\n(\\base), %k\\n; .endif\n"
	".endr; .endm\n"
	".macro vectors level, base, store\n"
	"cmp $1, \\level; jb 1f; ja 2f\n"
	"first16 vmovups, ymm, \\base, \\store; jmp 3f\n"
	"1: first16 movups, xmm, \\base, \\store; jmp 3f\n"
	"2: avx512 \\base, \\store\n"
	"3:; .endm\n"
	".text; around: push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
	"push %rdx; push %rsi; mov %rdi, %rax\n"
	"vectors %edx, %rax, 0\n"
	"fldl 248(%rax); fldl 256(%rax); ldmxcsr 264(%rax)\n"
	".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	"mov 120+8*\\n(%rax), %rbx; mov %rbx, -128+8*\\n(%rsp); .endr\n"
	"lea -128(%rsp), %rsp; push 112(%rax); popfq; lea 128(%rsp), %rsp\n"
	"mov 0(%rax), %rbx; mov 8(%rax), %rcx; mov 16(%rax), %rbp; mov 24(%rax), %rsi; mov 32(%rax), %rdi\n"
	"mov 40(%rax), %r8; mov 48(%rax), %r9; mov 56(%rax), %r10; mov 64(%rax), %r11; mov 72(%rax), %r12\n"
	"mov 80(%rax), %r13; mov 88(%rax), %r14; mov 96(%rax), %r15\n"
	"at_state: rdtsc; mov 0(%rsp), %rdx\n"
	"lea -128(%rsp), %rsp; pushfq; popq 112(%rdx); lea 128(%rsp), %rsp\n"
	"mov %rbx, 0(%rdx); mov %rcx, 8(%rdx); mov %rbp, 16(%rdx); mov %rsi, 24(%rdx); mov %rdi, 32(%rdx)\n"
	"mov %r8, 40(%rdx); mov %r9, 48(%rdx); mov %r10, 56(%rdx); mov %r11, 64(%rdx); mov %r12, 72(%rdx)\n"
	"mov %r13, 80(%rdx); mov %r14, 88(%rdx); mov %r15, 96(%rdx)\n"
	"cld\n"
	".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	"mov -128+8*\\n(%rsp), %rbx; mov %rbx, 120+8*\\n(%rdx); .endr\n"
	"fstpl 256(%rdx); fstpl 248(%rdx); stmxcsr 264(%rdx)\n"
	"mov 8(%rsp), %ecx\n"
	"vectors %ecx, %rdx, 1\n"
	"movl $0x1f80, -8(%rsp); ldmxcsr -8(%rsp)\n"
	"pop %rsi; pop %rdx; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret");

_Static_assert(__builtin_offsetof(struct state, flags) == 112, "flags");
_Static_assert(__builtin_offsetof(struct state, zone) == 120, "zone");
_Static_assert(__builtin_offsetof(struct state, x87) == 248, "x87");
_Static_assert(__builtin_offsetof(struct state, mxcsr) == 264, "mxcsr");
_Static_assert(__builtin_offsetof(struct state, masks) == 272, "masks");
_Static_assert(__builtin_offsetof(struct state, vectors) == 336, "vectors");

static int registers(void)
{
	int level = __builtin_cpu_supports("avx512bw") ? 2 : __builtin_cpu_supports("avx") ? 1 : 0, bad = 0;
	attach(make_shared(), 0); // to a timeline that uses registers
	static const uint64_t flags[] = { 0x202, 0x202 | 0x8d5, 0x202 | 0x400, 0x202 | 0x401 };
	for (int i = 0; i < OFTEN; i++) {
		struct state from, to;
		for (size_t k = 0; k < sizeof from; k++)
			((uint8_t *)&from)[k] = random();
		memset(&to, 0, sizeof to);
		from.flags = flags[i % 4];
		from.x87[0] = from.x87[1] = 0x3ff0000000000000 + i;
		from.mxcsr = i % 2 ? 0xffc0 : 0x1f80;
		around(&from, &to, level);
		int size = 16 << level;
		bad += memcmp(from.general, to.general, sizeof from.general) != 0;
		bad += from.flags != to.flags || (uint32_t)from.mxcsr != (uint32_t)to.mxcsr;
		bad += memcmp(from.zone, to.zone, sizeof from.zone) || memcmp(from.x87, to.x87, sizeof from.x87);
		bad += level == 2 && memcmp(from.masks, to.masks, sizeof from.masks);
		for (int v = 0; v < (level == 2 ? 32 : 16); v++)
			bad += memcmp(from.vectors[v], to.vectors[v], size) != 0;
	}
	printf("changed %d\npatched %d\n", bad, is_patched(at_state));
	return 0;
}

// The handler comes right behind the instruction, and reads by the same one until that is patched.
static volatile int handled;
static void on_alarm(int signal)
{
	(void)signal;
	if (!handled++)
		often(read_load);
	else
		see(read_load((uint64_t[2]){ 0, handled }));
}

static int handlers(void)
{
	struct itimerval often_enough = { { 0, 1 }, { 0, 1 } }, never = { 0 };
	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often_enough, NULL);
	uint64_t memory[2] = { 0, 0 };
	for (; handled < 50; memory[1]++) {
		see(read_load(memory));
		if (memory[0] != memory[1])
			return 3;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	printf("handled %d seen %lx\npatched %d\n", handled, (long)seen, is_patched(at_load));
	return 0;
}

// Threads are at all places of the site while it is patched.
enum { THREADS = 4 };
static volatile int ready, done, wrong;
static void *reads(void *unused)
{
	uint64_t before = 0, memory[2] = { 0, 0 };
	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
	while (ready < THREADS)
		;
	for (int i = 0; i < 5000; i++, memory[1]++) {
		uint64_t now = i % 2 ? read_load(memory) : read_two(memory);
		wrong += now <= before || (i % 2 && memory[0] != memory[1]);
		before = now;
	}
	__atomic_fetch_add(&done, 1, __ATOMIC_SEQ_CST);
	return unused;
}

static int threads(void)
{
	pthread_t thread[THREADS];
	see(read_far(NULL)); // the first one that is read by begins anew, and threads might do so at any time
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, reads, NULL);
	while (done < THREADS) // any call would make readings short again, at some time
		;
	printf("wrong %d, then %lu\n", wrong, (long)read_far(NULL));
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	printf("patched %d%d\n", is_patched(at_load), is_patched(at_two));
	return 0;
}

// A child has what its parent has patched, and its own clock; it patches for itself.
static int forks(void)
{
	int status;
	often(read_load);
	fflush(stdout);
	pid_t child = fork();
	often(read_load), often(read_two);
	if (!child) {
		usleep(1000);
		printf("child %lx %lu, ", (long)seen, (long)read_far(NULL));
		printf("patched %d%d\n", is_patched(at_load), is_patched(at_two));
		fflush(stdout);
		_exit(5);
	}
	waitpid(child, &status, 0);
	printf("parent %lx %lu status %d\n", (long)seen, (long)read_far(NULL), WEXITSTATUS(status));
	printf("patched %d%d\n", is_patched(at_load), is_patched(at_two));
	return 0;
}

// A handler on a signal stack, and a program that wants faults handled there.
static void on_stack(int signal)
{
	(void)signal;
	often(read_two);
}

static int stacks(void)
{
	static char memory[1 << 16];
	stack_t stack = { .ss_sp = memory, .ss_size = sizeof memory };
	struct sigaction action = { .sa_handler = on_stack, .sa_flags = SA_ONSTACK };
	attach(make_shared(), 0);
	often(read_load), often(read_two);
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	often(read_load);
	sigaction(SIGSEGV, &action, NULL);
	often(read_load), often(read_far);
	printf("seen %lx, spent %lu times\n", (long)seen, (long)spends);
	printf("patched %d%d%d\n", is_patched(at_load), is_patched(at_two), is_patched(at_far));
	return 0;
}

static int many(void)
{
	uint64_t memory[2] = { 0, 0 };
	for (int i = 0; i < 150000; i++)
		see(read_load(memory));
	printf("seen %lx\npatched %d\n", (long)seen, is_patched(at_load));
	return 0;
}

int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "";
	if (!strcmp(part, "kinds"))
		return kinds();
	if (!strcmp(part, "registers"))
		return registers();
	if (!strcmp(part, "handlers"))
		return handlers();
	if (!strcmp(part, "threads"))
		return threads();
	if (!strcmp(part, "forks"))
		return forks();
	if (!strcmp(part, "stacks"))
		return stacks();
	if (!strcmp(part, "many"))
		return many();
	return 2;
}
