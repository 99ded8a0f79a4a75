/* A program without OpenMP of its own that loads libraries with it: the runtime comes late, from a place that nothing else looks at, and
 * the code of a region may be gone, and other code lie at its address, when the next region runs. Arguments: paths of the two libraries. */
#include "check.h"
#include <dlfcn.h>
#include <unistd.h>

typedef long (*function)(int);

static void use(const char *path, int flags, long factor)
{
    void *library = dlopen(path, flags);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        CHECK(0, "dlopen of a library with OpenMP");
        return;
    }
    /* gcc's runtime does not stand being unloaded while its threads wait, so it stays. */
    dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    function sum = (function)dlsym(library, "loaded_sum");
    function tasks = (function)dlsym(library, "loaded_tasks");
    CHECK(sum != NULL && tasks != NULL, "functions of the library");
    for (int round = 0; round < 20; round++) {
        CHECK(sum(1000) == 499500 * factor, "a region of a loaded library");
        CHECK(tasks(50) == 1225 * factor, "tasks of a loaded library");
    }
    CHECK(dlclose(library) == 0, "dlclose");
}

int main(int argc, char **argv)
{
    /* Paths follow the program's name; options may follow them. */
    if (argc < 3 || access(argv[1], R_OK) != 0 || access(argv[2], R_OK) != 0) {
        CHECK(0, "two libraries as arguments");
        return finish();
    }
    for (int round = 0; round < 3; round++) {
        use(argv[1], RTLD_NOW | RTLD_LOCAL, 1);
        use(argv[2], RTLD_LAZY | RTLD_LOCAL, 3);
    }
    use(argv[1], RTLD_NOW | RTLD_GLOBAL, 1);
    use(argv[2], RTLD_NOW | RTLD_LOCAL, 3);
    return finish();
}
