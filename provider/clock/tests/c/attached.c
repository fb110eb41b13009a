// What a program does while a timeline (timeline.c) is attached: each argument names one part.
#define _GNU_SOURCE
#include "timeline.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void must(int good, const char *what)
{
	if (!good) {
		perror(what);
		_exit(3);
	}
}

static void put(int fd, const void *b, size_t n) { must(write(fd, b, n) == (ssize_t)n, "write"); }
static void get(int fd, void *b, size_t n)
{
	for (size_t got = 0; got < n;) {
		ssize_t r = read(fd, (char *)b + got, n - got);
		must(r > 0, "read");
		got += r;
	}
}

// 50 round trips, one large message, then the end of the stream.
static char large[4 << 20];
static void client(int fd)
{
	char b[64];
	for (int i = 0; i < 50; i++) {
		usleep(10);
		put(fd, "question", 8);
		get(fd, b, 6);
	}
	struct iovec parts[2] = { { large, 1000 }, { large + 1000, sizeof large - 1000 } };
	must(writev(fd, parts, 2) == sizeof large, "writev");
	close(fd);
}

static void server(int fd)
{
	char b[64];
	for (int i = 0; i < 50; i++) {
		must(recv(fd, b, 8, MSG_WAITALL) == 8, "recv");
		must(send(fd, "answer", 6, 0) == 6, "send");
	}
	usleep(5000); // the large message waits for room
	get(fd, large, sizeof large);
	must(read(fd, b, 1) == 0, "end");
}

static int stream(int family)
{
	struct shared *s = make_shared();
	struct sockaddr_storage address = { .ss_family = family };
	struct sockaddr_un *un = (void *)&address;
	socklen_t length = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_un);
	int listener = socket(family, SOCK_STREAM, 0), status;
	if (family == AF_UNIX)
		sprintf(un->sun_path + 1, "verbena-clock-test-%d", getpid());
	must(!bind(listener, (void *)&address, length) && !listen(listener, 1), "listen");
	getsockname(listener, (void *)&address, &length);
	pid_t child = fork();
	if (!child) {
		attach(s, 1);
		int fd = socket(family, SOCK_STREAM, 0);
		if (family == AF_INET)
			inet_pton(AF_INET, "127.0.0.1", &((struct sockaddr_in *)&address)->sin_addr);
		must(!connect(fd, (void *)&address, length), "connect");
		client(fd);
		_exit(0);
	}
	attach(s, 0);
	server(accept(listener, NULL, NULL));
	waitpid(child, &status, 0);
	printf("status %d server %lu client %lu lost %d open %d\n", WEXITSTATUS(status),
	       (long)clock_of(s, 0), (long)clock_of(s, 1), lost(s), open_waits(s));
	return 0;
}

static int over_pipes(void)
{
	struct shared *s = make_shared();
	int to[2], from[2], status;
	char b[8];
	must(!pipe(to) && !pipe(from), "pipe");
	pid_t child = fork();
	if (!child) {
		attach(s, 1);
		for (int i = 0; i < 50; i++)
			get(to[0], b, 1), usleep(1), put(from[1], b, 1);
		_exit(0);
	}
	attach(s, 0);
	for (int i = 0; i < 50; i++)
		put(to[1], "x", 1), get(from[0], b, 1);
	waitpid(child, &status, 0);
	printf("status %d parent %lu child %lu lost %d\n", WEXITSTATUS(status), (long)clock_of(s, 0),
	       (long)clock_of(s, 1), lost(s));
	return 0;
}

// A child whose time goes on until the parent's has passed 5 ms.
static pid_t passing(struct shared *s)
{
	pid_t child = fork();
	if (child)
		return child;
	attach(s, 1);
	for (int i = 0; i < 20000 && clock_of(s, 0) < 5000000000; i++) {
		usleep(10); // virtual: the real pause follows
		for (uint64_t t = library_ns(); library_ns() - t < 200000;)
			;
	}
	_exit(7);
}

// The time-out of one process comes when the other one's time has passed it.
static int deadline(void)
{
	struct shared *s = make_shared();
	int fd[2], status;
	must(!pipe(fd), "pipe");
	pid_t child = passing(s);
	attach(s, 0);
	struct pollfd p = { fd[0], POLLIN, 0 };
	int ready = poll(&p, 1, 5);
	uint64_t at = clock_of(s, 0);
	waitpid(child, &status, 0);
	printf("status %d ready %d at %lu\n", WEXITSTATUS(status), ready, (long)at);
	return 0;
}

static uint64_t alarmed;
static void on_alarm(int signal)
{
	(void)signal;
	alarmed = __builtin_ia32_rdtsc();
}

// The alarm ends a read; and it comes in a waitpid, which goes on or ends as its handler says.
static int alarms(void)
{
	struct shared *s = make_shared();
	struct sigaction ends = { .sa_handler = on_alarm }, restarts = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval in_2ms = { { 0, 0 }, { 0, 2000 } };
	int fd[2], status;
	char b;
	must(!pipe(fd), "pipe");
	pid_t child = passing(s);
	attach(s, 0);
	sigaction(SIGALRM, &ends, NULL);
	setitimer(ITIMER_REAL, &in_2ms, NULL);
	int result = read(fd[0], &b, 1);
	printf("read %d %s at %lu", result, strerror(errno), (long)(alarmed - 1000000000000) / 1000);
	setitimer(ITIMER_REAL, &in_2ms, NULL);
	errno = 0;
	pid_t pid = waitpid(child, &status, 0);
	printf(", wait %d %s at %lu", pid, strerror(errno), (long)(alarmed - 1000000000000) / 1000);
	sigaction(SIGALRM, &restarts, NULL);
	setitimer(ITIMER_REAL, &in_2ms, NULL);
	pid = waitpid(child, &status, 0);
	printf(", wait again %d %d at %lu\n", pid == child, WEXITSTATUS(status),
	       (long)(alarmed - 1000000000000) / 1000);
	return 0;
}

static volatile char memory;
static __attribute__((noinline)) int load(volatile char *p) { return *p; }

// Spins on memory in three ways, and computes in others that look like it.
static int spin(void)
{
	struct shared *s = make_shared();
	attach(s, 0);
	card_writes = &memory;
	for (int i = 0; i < 100; i++)
		for (char was = memory; memory == was;)
			;
	for (int i = 0; i < 100; i++)
		for (char was = memory; load(&memory) == was;)
			__builtin_ia32_pause();
	for (int i = 0; i < 100; i++) {
		volatile char was = memory;
		while (memory == was)
			;
	}
	printf("spins: %lu waits, %lu ps\n", (long)memory_waits, (long)clock_of(s, 0));
	memory_waits = 0;
	static volatile int count;
	__asm__ volatile("1: addl $1,%0; cmpl $50000000,%0; jl 1b" : "+m"(count)::"cc");
	for (volatile int i = 0; i < 30000000; i++)
		;
	uint64_t x = 1;
	for (int i = 0; i < 100000000; i++) {
		__asm__ volatile("" : "+r"(x));
		x = x * 6364136223846793005u + 1;
	}
	static char buffer[16 << 20];
	for (int i = 0; i < 20; i++) {
		memset(buffer, i, sizeof buffer);
		__asm__ volatile("" ::: "memory");
		memcpy(buffer, buffer + sizeof buffer / 2, sizeof buffer / 2);
		__asm__ volatile("" ::: "memory");
	}
	for (size_t i = 0; i < sizeof buffer; i++)
		x += ((volatile char *)buffer)[i];
	printf("computes: %lu waits\n", (long)memory_waits);
	return 0;
}

// Inside the attached library the clocks are the machine's, and go on.
static int exempt(void)
{
	uint64_t before = library_ns();
	attach(make_shared(), 0);
	uint64_t a = library_ns();
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	for (int i = 0; i < 100000; i++)
		__asm__ volatile("");
	printf("exempt %d, virtual before %d, program %ld.%09ld\n", library_ns() > a && a / 1000000000 != 1000,
	       before / 1000000000 == 1000, (long)t.tv_sec, t.tv_nsec);
	return 0;
}

int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "";
	if (!strcmp(part, "tcp"))
		return stream(AF_INET);
	if (!strcmp(part, "unix"))
		return stream(AF_UNIX);
	if (!strcmp(part, "pipes"))
		return over_pipes();
	if (!strcmp(part, "deadline"))
		return deadline();
	if (!strcmp(part, "alarms"))
		return alarms();
	if (!strcmp(part, "spin"))
		return spin();
	if (!strcmp(part, "exempt"))
		return exempt();
	return 2;
}
