/* Programs that fork: the child has only the thread that forked. */
#include "check.h"
#include <errno.h>
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

static long work(void)
{
    long sum = 0;
#pragma omp parallel for num_threads(2) reduction(+ : sum) schedule(dynamic, 10)
    for (int i = 0; i < 1000; i++)
        sum += i;
    int done = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int i = 0; i < 100; i++) {
#pragma omp task depend(inout : done)
        done++;
    }
    return sum + done;
}

static void check_child(pid_t child, int code, const char *what)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code, what);
}

int main(void)
{
    omp_set_dynamic(0);
    /* Before the first region both may use OpenMP. */
    pid_t child = fork();
    if (child == 0) {
        alarm(10);
        exit(work() == 499600 ? 3 : 4);
    }
    CHECK(work() == 499600, "regions of the parent");
    check_child(child, 3, "a child that forked before the first region");
    /* After a region the child may do what needs no team. */
    for (int round = 0; round < 5; round++) {
        child = fork();
        if (child == 0) {
            alarm(10);
            if (round % 2 == 0)
                _exit(5);
            exit(5);
        }
        CHECK(work() == 499600, "regions of the parent beside a child");
        check_child(child, 5, "a child that ends at once");
    }
#ifdef __clang__
    /* LLVM's runtime starts anew in a child; gcc's waits for threads that are not there. */
    child = fork();
    if (child == 0) {
        alarm(10);
        exit(work() == 499600 ? 6 : 7);
    }
    check_child(child, 6, "a child that forked after regions");
#endif
    /* Out of a region, by one of its threads. */
    int forks = 0;
#pragma omp parallel num_threads(2)
    {
#pragma omp critical
        {
            pid_t inner = fork();
            if (inner == 0)
                _exit(8);
            check_child(inner, 8, "a child of a thread of a region");
            forks++;
        }
    }
    CHECK(forks >= 1, "forks in a region");
    CHECK(work() == 499600, "regions after forks");
    return finish();
}
