#define _GNU_SOURCE
#include "timeline.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WAKE_SIGNAL = 63, MARKS = 4096 };

// The structures of contract/src/clock.rs.
struct key { uint32_t kind, reserved; uint64_t from, to; };
struct wait_fd { int32_t fd; uint32_t events; struct key key; uint64_t position; };
struct places { uint64_t count; struct { uint64_t first, end; } range[8]; };
struct table {
	uint32_t version, reserved;
	uint64_t clock_read_ps;
	uint64_t (*now)(void *), (*spend)(void *, uint64_t), (*sleep_until)(void *, uint64_t);
	uint64_t (*block)(void *, const struct wait_fd *, size_t, uint64_t), (*unblock)(void *, uint64_t);
	void (*sent)(void *, const struct key *, uint64_t), (*received)(void *, const struct key *, uint64_t);
	void (*closed)(void *, const struct key *);
	uint64_t (*memory_wait)(void *, const struct places *), (*calls)(void *);
	void (*alarm)(void *, uint64_t);
	uint64_t (*thread_starts)(void *);
	void (*thread_runs)(void *, uint64_t, _Bool);
};

struct process { uint64_t clock, deadline, alarm; int blocked, pid, tid; };
struct mark { struct key key; uint64_t end, at; };
struct shared {
	pthread_mutex_t lock;
	struct process process[2];
	struct mark mark[MARKS];
	int marks, lost, waits;
};

volatile char *card_writes;
uint64_t memory_waits, spends;
static struct shared *net;
static struct process *self;

#define LOCKED(...) do { pthread_mutex_lock(&net->lock); __VA_ARGS__; pthread_mutex_unlock(&net->lock); } while (0)

static uint64_t now(void *d) { (void)d; return self->clock; }

// Ends the wait of the other process if its deadline, or its alarm, has come.
static void wake(uint64_t at)
{
	struct process *other = &net->process[self == &net->process[0]];
	uint64_t until = other->deadline < other->alarm ? other->deadline : other->alarm;
	if (other->blocked && until <= at) {
		if (other->clock < until)
			other->clock = until;
		syscall(SYS_tgkill, other->pid, other->tid, WAKE_SIGNAL);
	}
}

// Needs what a function is promised, and changes all registers that it may: a timeline is real code.
static void use_registers(void)
{
	uint32_t mxcsr = 0;
	uint64_t flags;
	__asm__ volatile("stmxcsr %0; pushfq; popq %1" : "+m"(mxcsr), "=r"(flags));
	if ((mxcsr & ~0x3f) != 0x1f80 || flags & 0x400)
		abort();
	volatile double third = 1.0, three = 3.0;
	third /= three; // not exact, which MXCSR remembers
	if (__builtin_cpu_supports("avx512bw"))
		__asm__ volatile(".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,"
				 "29,30,31; vpternlogd $255, %zmm\\n, %zmm\\n, %zmm\\n; .endr;"
				 ".irp n, 0,1,2,3,4,5,6,7; kxnorq %k\\n, %k\\n, %k\\n; .endr; vzeroupper");
	else if (__builtin_cpu_supports("avx"))
		__asm__ volatile("vzeroall");
	else
		__asm__ volatile(".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15; pcmpeqd %xmm\\n, %xmm\\n; .endr");
}

static uint64_t spend(void *d, uint64_t ps)
{
	(void)d;
	use_registers();
	spends++;
	LOCKED(self->clock += ps; wake(self->clock));
	return self->clock;
}

static uint64_t sleep_until(void *d, uint64_t at)
{
	(void)d;
	LOCKED(if (at > self->clock) self->clock = at; wake(self->clock));
	return self->clock;
}

static uint64_t block(void *d, const struct wait_fd *fds, size_t n, uint64_t deadline)
{
	(void)d, (void)fds, (void)n;
	LOCKED(self->blocked = 1; self->deadline = deadline; self->pid = getpid();
	       self->tid = syscall(SYS_gettid); net->waits++);
	return 42;
}

static uint64_t unblock(void *d, uint64_t token)
{
	(void)d;
	if (token != 42)
		abort();
	LOCKED(self->blocked = 0);
	return self->clock;
}

static void mark(const struct key *key, uint64_t end)
{
	LOCKED(net->mark[net->marks++ % MARKS] = (struct mark){ *key, end, self->clock });
}

static void sent(void *d, const struct key *key, uint64_t end) { (void)d; mark(key, end); }
static void closed(void *d, const struct key *key) { (void)d; mark(key, UINT64_MAX); }

static void received(void *d, const struct key *key, uint64_t end)
{
	(void)d;
	LOCKED({
		uint64_t at = 0;
		for (int i = 0; i < net->marks && i < MARKS && !at; i++)
			if (!memcmp(&net->mark[i].key, key, sizeof *key) && net->mark[i].end >= end)
				at = net->mark[i].at + MESSAGE_PS;
		if (!at)
			net->lost++;
		if (at > self->clock)
			self->clock = at;
	});
}

static uint64_t memory_wait(void *d, const struct places *places)
{
	uint64_t at = (uint64_t)card_writes;
	int watched = 0;
	(void)d;
	memory_waits++;
	for (uint64_t i = 0; i < places->count; i++)
		watched |= places->range[i].first <= at && at < places->range[i].end;
	if (card_writes && !watched)
		abort();
	self->clock += 1000000;
	if (card_writes)
		++*card_writes;
	return self->clock;
}

static uint64_t calls(void *d) { (void)d; return 0; }
static void want_alarm(void *d, uint64_t at) { (void)d; LOCKED(self->alarm = at); }

struct shared *make_shared(void)
{
	pthread_mutexattr_t a;
	struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s == MAP_FAILED)
		exit(9);
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&s->lock, &a);
	return s;
}

void attach(struct shared *shared, int me)
{
	static const struct table table = { 3, 0, READ_PS, now, spend, sleep_until, block, unblock, sent,
					    received, closed, memory_wait, calls, want_alarm, NULL, NULL };
	int (*attach)(const struct table *, void *) = dlsym(RTLD_DEFAULT, "verbena_clock_attach");
	net = shared;
	self = &net->process[me];
	if (!attach || attach(&table, NULL)) {
		printf("no clock to attach to\n");
		exit(9);
	}
}

uint64_t clock_of(struct shared *s, int who) { return s->process[who].clock; }
int lost(struct shared *s) { return s->lost; }
int open_waits(struct shared *s) { return s->process[0].blocked + s->process[1].blocked; }
int waits(struct shared *s) { return s->waits; }

uint64_t library_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}
