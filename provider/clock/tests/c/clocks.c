// What a program sees of time: each argument names one part, which prints one line.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static uint64_t ns(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

// A turn that two threads give each other; each waits for it at most until a time that never comes.
static struct { pthread_mutex_t m; pthread_cond_t c; int turn, late; } hand = {
	PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0
};

static void *hand_over(void *me)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 40;
	for (int i = 0; i < 2000; i++) {
		pthread_mutex_lock(&hand.m);
		while (hand.turn % 2 != (long)me && !hand.late)
			hand.late += pthread_cond_timedwait(&hand.c, &hand.m, &until) == ETIMEDOUT;
		hand.turn++;
		pthread_cond_signal(&hand.c);
		pthread_mutex_unlock(&hand.m);
	}
	return NULL;
}

static void *read_one(void *fd)
{
	char byte;
	return (void *)read(*(int *)fd, &byte, 1);
}

// What a wait with a time-out in 5 ms returned, and after how many milliseconds.
#define TIMED(clock, wait)                                                            \
	do {                                                                          \
		struct timespec until;                                                \
		uint64_t at = ns(CLOCK_MONOTONIC);                                    \
		clock_gettime(clock, &until);                                         \
		until.tv_nsec += 5000000;                                             \
		int error = wait;                                                     \
		printf(" %s %lu", error == ETIMEDOUT ? "late" : "else", (ns(CLOCK_MONOTONIC) - at) / 1000000); \
	} while (0)

// As perftest's get_cpu_mhz(): cycles against gettimeofday, compared with /proc/cpuinfo.
static double measured_mhz(void)
{
	enum { N = 200 };
	double sx = 0, sy = 0, sxx = 0, sxy = 0;
	for (int i = 0; i < N; i++) {
		struct timeval a, b;
		uint64_t start = __rdtsc();
		long us;
		gettimeofday(&a, NULL);
		do {
			gettimeofday(&b, NULL);
			us = (b.tv_sec - a.tv_sec) * 1000000 + b.tv_usec - a.tv_usec;
		} while (us < 100 + i * 10);
		double x = us, y = __rdtsc() - start;
		sx += x, sy += y, sxx += x * x, sxy += x * y;
	}
	return (N * sxy - sx * sy) / (N * sxx - sx * sx);
}

static double written_mhz(void)
{
	char line[256];
	double mhz = 0;
	FILE *f = fopen("/proc/cpuinfo", "r");
	while (f && fgets(line, sizeof line, f))
		sscanf(line, "cpu MHz : %lf", &mhz);
	if (f)
		fclose(f);
	return mhz;
}

static sig_atomic_t alarms;
static uint64_t alarmed_at;
static void on_alarm(int s)
{
	(void)s;
	alarms++;
	alarmed_at = __rdtsc(); // in a handler, as perftest does
}

static volatile int *volatile nowhere = (volatile int *)16;
static sigjmp_buf back;
static void on_segv(int s, siginfo_t *info, void *context)
{
	(void)s, (void)context;
	siglongjmp(back, info->si_addr == (void *)16 ? 1 : 2);
}

static void *other(void *p)
{
	unsigned cpu;
	(void)p;
	uint64_t before = __rdtscp(&cpu);
	usleep(250);
	return (void *)(uintptr_t)(__rdtsc() - before);
}

static int part(const char *name)
{
	if (!strcmp(name, "mhz")) {
		double m = measured_mhz(), w = written_mhz();
		double d = m > w ? m - w : w - m;
		printf("mhz %.6f, measured within 1e-6: %s\n", w, d / w < 1e-6 ? "yes" : "no");
	} else if (!strcmp(name, "sleeps")) {
		uint64_t at[6], t = ns(CLOCK_MONOTONIC);
		struct timespec ts = { 0, 1500 }, until;
		sleep(1000), at[0] = ns(CLOCK_MONOTONIC);
		usleep(7), at[1] = ns(CLOCK_MONOTONIC);
		nanosleep(&ts, NULL), at[2] = ns(CLOCK_MONOTONIC);
		clock_nanosleep(CLOCK_REALTIME, 0, &ts, NULL), at[3] = ns(CLOCK_MONOTONIC);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += 3;
		clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL), at[4] = ns(CLOCK_MONOTONIC);
		poll(NULL, 0, 9), at[5] = ns(CLOCK_MONOTONIC);
		printf("sleeps");
		for (int i = 0; i < 6; t = at[i++])
			printf(" %lu", (unsigned long)(at[i] - t));
		printf("\n");
	} else if (!strcmp(name, "timeouts")) {
		int fd[2], e = epoll_create1(0);
		struct epoll_event ev = { .events = EPOLLIN };
		struct timeval tv = { 0, 20000 };
		fd_set set;
		if (pipe(fd))
			return 1;
		struct pollfd p = { fd[0], POLLIN, 0 };
		epoll_ctl(e, EPOLL_CTL_ADD, fd[0], &ev);
		FD_ZERO(&set);
		FD_SET(fd[0], &set);
		uint64_t t = ns(CLOCK_MONOTONIC);
		int a = poll(&p, 1, 10);
		uint64_t t1 = ns(CLOCK_MONOTONIC);
		int b = select(fd[0] + 1, &set, NULL, NULL, &tv);
		uint64_t t2 = ns(CLOCK_MONOTONIC);
		int c = epoll_wait(e, &ev, 1, 30);
		uint64_t t3 = ns(CLOCK_MONOTONIC);
		printf("timeouts %d %lu %d %lu %d %lu", a, (long)(t1 - t), b, (long)(t2 - t1), c, (long)(t3 - t2));
		if (write(fd[1], "x", 1) != 1)
			return 1;
		FD_SET(fd[0], &set);
		a = poll(&p, 1, -1), b = select(fd[0] + 1, &set, NULL, NULL, NULL), c = epoll_wait(e, &ev, 1, -1);
		printf(", ready %d %d %d\n", a, b, c);
	} else if (!strcmp(name, "alarms")) {
		struct itimerval each = { { 0, 500000 }, { 0, 500000 } }, off = { { 0, 0 }, { 0, 0 } };
		signal(SIGALRM, on_alarm);
		uint64_t t = __rdtsc();
		alarm(3);
		while (!alarms)
			__rdtsc();
		int busy = (alarmed_at - t) / 1000000;
		alarm(3);
		unsigned left = sleep(10);
		alarm(7), t = __rdtsc(), pause();
		int paused = (__rdtsc() - t) / 1000000;
		setitimer(ITIMER_REAL, &each, NULL), alarms = 0, t = __rdtsc();
		while (alarms < 4)
			__rdtsc();
		setitimer(ITIMER_REAL, &off, NULL);
		printf("alarms %d %u %d %d\n", busy, left, paused, (int)((__rdtsc() - t) / 1000000));
	} else if (!strcmp(name, "long")) {
		// Longer than 2^64 ps.
		struct itimerval year = { { 31536000, 0 }, { 31536000, 0 } };
		struct itimerspec each = { { 31536000, 0 }, { 1, 0 } }, tick;
		int fd = timerfd_create(CLOCK_MONOTONIC, 0);
		signal(SIGALRM, on_alarm);
		alarm(31536000);
		sleep(1);
		int alarmed = alarms;
		setitimer(ITIMER_REAL, &year, NULL);
		sleep(1);
		timerfd_settime(fd, 0, &each, NULL);
		sleep(2);
		uint64_t count = 0, days = ns(CLOCK_MONOTONIC);
		if (read(fd, &count, 8) != 8)
			return 1;
		timerfd_gettime(fd, &tick);
		alarm(0);
		unsigned left = sleep(31536000);
		printf("long %d %d %lu %d %u %lu\n", alarmed, (int)alarms, count, tick.it_value.tv_sec > 10000000, left,
		       (ns(CLOCK_MONOTONIC) - days) / 1000000000 / 86400);
	} else if (!strcmp(name, "threads")) {
		pthread_t t[4];
		void *took;
		printf("threads");
		for (int i = 0; i < 4; i++) {
			pthread_create(&t[i], NULL, other, NULL);
			pthread_join(t[i], &took);
			printf(" %lu", (long)took / 1000);
		}
		pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
		pthread_cond_t c = PTHREAD_COND_INITIALIZER;
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		uint64_t at = ns(CLOCK_MONOTONIC);
		until.tv_nsec += 5000000;
		pthread_mutex_lock(&m);
		int error = pthread_cond_timedwait(&c, &m, &until);
		printf(", condition %s %lu\n", strerror(error), (ns(CLOCK_MONOTONIC) - at) / 1000000);
	} else if (!strcmp(name, "locks")) {
		pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
		pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
		pthread_t t;
		int fds[2];
		if (pipe(fds))
			return 1;
		printf("locks");
		pthread_mutex_lock(&m);
		TIMED(CLOCK_REALTIME, pthread_mutex_timedlock(&m, &until));
		TIMED(CLOCK_MONOTONIC, pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &until));
		pthread_rwlock_rdlock(&rw);
		TIMED(CLOCK_REALTIME, pthread_rwlock_timedwrlock(&rw, &until));
		TIMED(CLOCK_MONOTONIC, pthread_rwlock_clockwrlock(&rw, CLOCK_MONOTONIC, &until));
		pthread_create(&t, NULL, read_one, &fds[0]);
		TIMED(CLOCK_REALTIME, pthread_timedjoin_np(t, NULL, &until));
		TIMED(CLOCK_MONOTONIC, pthread_clockjoin_np(t, NULL, CLOCK_MONOTONIC, &until));
		if (write(fds[1], "", 1) != 1)
			return 1;
		pthread_join(t, NULL);
		printf("\n");
	} else if (!strcmp(name, "handover")) {
		pthread_t t[2];
		for (long i = 0; i < 2; i++)
			pthread_create(&t[i], NULL, hand_over, (void *)i);
		for (int i = 0; i < 2; i++)
			pthread_join(t[i], NULL);
		printf("handover %d, late %d\n", hand.turn, hand.late);
	} else if (!strcmp(name, "faults")) {
		struct sigaction sa = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO }, old;
		sigset_t all;
		sigaction(SIGSEGV, &sa, NULL);
		int first = sigsetjmp(back, 1);
		if (!first)
			*nowhere = 1;
		uint64_t a = __rdtsc();
		int second = sigsetjmp(back, 1);
		if (!second)
			*nowhere = 1;
		sigfillset(&all);
		sigprocmask(SIG_BLOCK, &all, NULL);
		uint64_t b = __rdtsc(); // would be deadly if SIGSEGV were blocked
		sigaction(SIGSEGV, NULL, &old);
		printf("faults %d %d %d %s\n", first, second, b > a, old.sa_sigaction == on_segv ? "kept" : "lost");
	} else if (!strcmp(name, "death")) {
		fflush(stdout);
		if (!fork()) {
			__rdtsc();
			*nowhere = 1;
		}
		int status;
		wait(&status);
		printf("death by %s\n", WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "nothing");
	} else if (!strcmp(name, "programs")) {
		char line[64] = "";
		fflush(stdout);
		if (system("sleep 100; echo system"))
			return 1;
		FILE *f = popen("sleep 100; echo popen", "r");
		if (!f || !fgets(line, sizeof line, f))
			return 1;
		pclose(f);
		printf("programs %s", line);
		fflush(stdout);
		if (!fork())
			_exit(execl("/nonexistent", "x", NULL) + 3 - (__rdtsc() == 0));
		int status;
		wait(&status);
		printf("failed exec goes on: %d\n", WEXITSTATUS(status));
		fflush(stdout);
		if (!fork())
			execle("/bin/sh", "sh", "-c", "echo execle $V $1 $2 $3 $4", "a", "1", "2", "3", "4", NULL,
			       (char *[]){ "V=v", NULL });
		wait(NULL);
		if (!vfork())
			execlp("echo", "echo", "execlp", "1", "2", "3", "4", "5", "6", NULL);
		wait(NULL);
	} else if (!strcmp(name, "date")) {
		struct timeval tv;
		time_t t = time(NULL);
		gettimeofday(&tv, NULL);
		printf("date %ld %ld %ld %s", t, (long)tv.tv_sec, (long)(ns(CLOCK_REALTIME) / 1000000000), ctime(&t));
	} else {
		return 2;
	}
	return 0;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (part(argv[i]))
			return 1;
	return 0;
}
