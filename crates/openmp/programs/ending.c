/* How programs end while a region runs: the program starts itself with the name of an end, and looks at what comes of it. */
#include "check.h"
#include <errno.h>
#include <omp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void crash(void)
{
    volatile int *nowhere = NULL;
    *nowhere = 1;
}

static int at_exit_ran;

static void at_exit(void)
{
    at_exit_ran++;
    printf("exit handlers run\n");
}

static void end_as(const char *how)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    alarm(20);
    atexit(at_exit);
    if (strcmp(how, "task") == 0) {
#pragma omp parallel num_threads(2)
#pragma omp single
        for (int i = 0; i < 1000; i++) {
#pragma omp task
            if (i == 500)
                exit(14);
        }
    }
#pragma omp parallel num_threads(2)
    {
        int last = omp_get_thread_num() == omp_get_num_threads() - 1;
        if (strcmp(how, "first") == 0 && omp_get_thread_num() == 0)
            exit(11);
        if (strcmp(how, "last") == 0 && last)
            exit(12);
        if (strcmp(how, "at-once") == 0 && last)
            _exit(13);
        if (strcmp(how, "abort") == 0 && last)
            abort();
        if (strcmp(how, "crash") == 0 && last)
            crash();
        if (strcmp(how, "killed") == 0 && last)
            raise(SIGKILL);
        if (strcmp(how, "terminated") == 0 && omp_get_thread_num() == 0)
            raise(SIGTERM);
        for (;;)
            spin(1, 1000);
    }
}

static void check_end(char *program, char *how, int code, int number)
{
    pid_t child = fork();
    if (child == 0) {
        char *arguments[] = {program, "--end", how, NULL};
        freopen("/dev/null", "w", stdout);
        execv("/proc/self/exe", arguments);
        _exit(99);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    int good = number > 0 ? WIFSIGNALED(status) && WTERMSIG(status) == number : WIFEXITED(status) && WEXITSTATUS(status) == code;
    if (!good)
        fprintf(stderr, "end %s: status %#x\n", how, (unsigned)status);
    CHECK(good, "exit code or signal of a program that ends in a region");
}

int main(int argc, char **argv)
{
    omp_set_dynamic(0);
    if (argc == 3 && strcmp(argv[1], "--end") == 0) {
        end_as(argv[2]);
        return 98;
    }
    check_end(argv[0], "first", 11, 0);
    check_end(argv[0], "last", 12, 0);
    check_end(argv[0], "at-once", 13, 0);
    check_end(argv[0], "task", 14, 0);
    check_end(argv[0], "abort", 0, SIGABRT);
    check_end(argv[0], "crash", 0, SIGSEGV);
    check_end(argv[0], "killed", 0, SIGKILL);
    check_end(argv[0], "terminated", 0, SIGTERM);
    return finish();
}
