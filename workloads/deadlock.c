/* deadlock: two threads take two mutexes in opposite order, and wait for each other forever. Prints
   a line once both have their first. */
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

__attribute__((noinline)) static void take_second(void)
{
	pthread_mutex_lock(&second);
	pthread_mutex_unlock(&second);
}

__attribute__((noinline)) static void take_first(void)
{
	pthread_mutex_lock(&first);
	pthread_mutex_unlock(&first);
}

static void *one(void *unused)
{
	pthread_mutex_lock(&first);
	pthread_barrier_wait(&both);
	take_second();
	return unused;
}

static void *other(void *unused)
{
	pthread_mutex_lock(&second);
	pthread_barrier_wait(&both);
	take_first();
	return unused;
}

int main(void)
{
	pthread_t threads[2];

	pthread_barrier_init(&both, NULL, 3);
	pthread_create(&threads[0], NULL, one, NULL);
	pthread_create(&threads[1], NULL, other, NULL);
	pthread_barrier_wait(&both);
	puts("stuck");
	fflush(stdout);
	pthread_join(threads[0], NULL);
	return 0;
}
