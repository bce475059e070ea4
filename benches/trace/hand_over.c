// Two processes give up the CPU to each other N times each; prints the seconds that it took.
// Pin it to one CPU and give it a real-time policy: every call is a context switch then.
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int count, char **arguments)
{
	long times = count > 1 ? atol(arguments[1]) : 300000;
	double start = now();
	for (int child = 0; child < 2; child++) {
		if (fork() == 0) {
			for (long i = 0; i < times; i++)
				sched_yield();
			_exit(0);
		}
	}
	while (wait(0) > 0)
		;
	printf("%f\n", now() - start);
	return 0;
}
