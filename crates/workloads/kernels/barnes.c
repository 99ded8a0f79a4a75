/* Forces between bodies by the method of Barnes and Hut, in three dimensions, over several steps of time.
 *
 * Written after the description of the application Barnes of SPLASH-2 (Woo, Ohara, Torrie, Singh, Gupta: The SPLASH-2 Programs, ISCA
 * 1995, section 3) and of the method (Barnes and Hut, Nature 324, 1986). In every step all threads insert their bodies into one octree,
 * under a lock for each cell on the way; add up masses from the leaves; walk the tree for each body; and move their bodies.
 *
 * The tree, and so the result, is a function of the bodies. Which thread makes a cell, and so where the cell lies in memory, depends on
 * the order in which threads take locks: recordings with several threads differ in the addresses of cells. */
#include "kernel.h"

enum { LOCKS = 256, TAKEN_AT_ONCE = 32, MAX_DEPTH = 200 };

static long steps = 2, theta = 60;

struct body {
    double at[3], speed[3], pull[3], mass;
};

/* `child` of an octant: 0 nothing, a positive number a cell, a negative one the body -child - 1. */
struct cell {
    double at[3], mass;
    int32_t child[8];
};

static struct body *bodies;
static struct cell *cells;    /* number 0 is unused, number 1 the root */
static double *reach_of;      /* of each thread: the largest coordinate of its bodies; 8 apart */
static double half;           /* of the root's side; a power of 2 */
static double apart;          /* the square of theta */
static int32_t used, capacity; /* cells that were taken from the pool */
static pthread_mutex_t pool, locks[LOCKS];

static const double DT = 1.0 / 64, SOFT = 1.0 / 4096;

static void initialise(void) {
    for (long i = 0; i < kernel_size; i++) {
        struct body *body = &bodies[i];
        for (int axis = 0; axis < 3; axis++) {
            double u = kernel_unit(6 * (uint64_t)i + (uint64_t)axis) - 0.5;
            /* Dense in the middle. */
            body->at[axis] = 4 * u * fabs(u);
            body->speed[axis] = kernel_unit(6 * (uint64_t)i + 3 + (uint64_t)axis) - 0.5;
        }
        body->mass = 1.0 / (double)(int32_t)kernel_size;
    }
}

static void find_reach(long me) {
    double reach = 0;
    for (long i = kernel_share(kernel_size, me); i < kernel_share(kernel_size, me + 1); i++)
        for (int axis = 0; axis < 3; axis++)
            if (fabs(bodies[i].at[axis]) > reach)
                reach = fabs(bodies[i].at[axis]);
    reach_of[me * 8] = reach;
}

static void plant(void) {
    double reach = 0;
    for (long thread = 0; thread < kernel_threads; thread++)
        if (reach_of[thread * 8] > reach)
            reach = reach_of[thread * 8];
    half = 1;
    while (half <= reach)
        half *= 2;
    memset(&cells[1], 0, sizeof cells[1]);
    used = 2;
}

/* A thread takes several cells at once, so that few threads meet at the pool. */
struct supply {
    int32_t next, end;
};

static int32_t new_cell(struct supply *supply) {
    if (supply->next == supply->end) {
        pthread_mutex_lock(&pool);
        supply->next = used;
        used += TAKEN_AT_ONCE;
        supply->end = used;
        pthread_mutex_unlock(&pool);
        if (supply->end > capacity)
            kernel_fail(1, "the bodies are too close to each other for the tree", "");
    }
    memset(&cells[supply->next], 0, sizeof *cells);
    return supply->next++;
}

static int octant_of(const double *at, const double *middle) {
    return (at[0] >= middle[0]) | (at[1] >= middle[1]) << 1 | (at[2] >= middle[2]) << 2;
}

/* Moves `middle` to the middle of an octant of a cell with half side `side`. */
static void descend(double *middle, int octant, double side) {
    for (int axis = 0; axis < 3; axis++)
        middle[axis] += octant >> axis & 1 ? 0.5 * side : -0.5 * side;
}

static void insert(int32_t body, struct supply *supply) {
    const double *at = bodies[body].at;
    double middle[3] = {0, 0, 0}, side = half;
    int32_t cell = 1;
    for (int depth = 0; depth < MAX_DEPTH; depth++) {
        int octant = octant_of(at, middle);
        pthread_mutex_t *lock = &locks[cell % LOCKS];
        pthread_mutex_lock(lock);
        int32_t child = cells[cell].child[octant];
        if (child == 0) {
            cells[cell].child[octant] = -body - 1;
            pthread_mutex_unlock(lock);
            return;
        }
        descend(middle, octant, side);
        side *= 0.5;
        if (child < 0) {
            /* The body that is here moves one level down, and the cell becomes visible after that. */
            int32_t between = new_cell(supply);
            cells[between].child[octant_of(bodies[-child - 1].at, middle)] = child;
            cells[cell].child[octant] = between;
            child = between;
        }
        pthread_mutex_unlock(lock);
        cell = child;
    }
    kernel_fail(1, "two bodies are at the same place", "");
}

/* Sets mass and centre of a cell from its children, in the order of octants. */
static void add_children(struct cell *cell) {
    double mass = 0, at[3] = {0, 0, 0};
    for (int octant = 0; octant < 8; octant++) {
        int32_t child = cell->child[octant];
        if (child == 0)
            continue;
        const double *child_at = child < 0 ? bodies[-child - 1].at : cells[child].at;
        double child_mass = child < 0 ? bodies[-child - 1].mass : cells[child].mass;
        mass += child_mass;
        for (int axis = 0; axis < 3; axis++)
            at[axis] += child_mass * child_at[axis];
    }
    cell->mass = mass;
    for (int axis = 0; axis < 3; axis++)
        cell->at[axis] = at[axis] / mass;
}

static void add_masses(int32_t cell) {
    for (int octant = 0; octant < 8; octant++)
        if (cells[cell].child[octant] > 0)
            add_masses(cells[cell].child[octant]);
    add_children(&cells[cell]);
}

/* Adds up the masses of this thread's share of the 64 cells two levels below the root. */
static void add_masses_below(long me) {
    for (long place = me; place < 64; place += kernel_threads) {
        int32_t cell = cells[1].child[place / 8];
        if (cell > 0 && cells[cell].child[place % 8] > 0)
            add_masses(cells[cell].child[place % 8]);
    }
}

static void add_masses_above(void) {
    for (int octant = 0; octant < 8; octant++)
        if (cells[1].child[octant] > 0)
            add_children(&cells[cells[1].child[octant]]);
    add_children(&cells[1]);
}

static void pull(struct body *body, const double *at, double mass) {
    double apart_by[3], square = SOFT;
    for (int axis = 0; axis < 3; axis++) {
        apart_by[axis] = at[axis] - body->at[axis];
        square += apart_by[axis] * apart_by[axis];
    }
    double force = mass / (square * sqrt(square));
    for (int axis = 0; axis < 3; axis++)
        body->pull[axis] += force * apart_by[axis];
}

/* Adds the pull of all that a cell of this side holds. A cell that looks small from the body pulls as one mass. */
static void walk(struct body *body, int32_t number, double side) {
    const struct cell *cell = &cells[number];
    double square = 0;
    for (int axis = 0; axis < 3; axis++)
        square += (cell->at[axis] - body->at[axis]) * (cell->at[axis] - body->at[axis]);
    if (side * side < apart * square) {
        pull(body, cell->at, cell->mass);
        return;
    }
    for (int octant = 0; octant < 8; octant++) {
        int32_t child = cell->child[octant];
        if (child > 0)
            walk(body, child, 0.5 * side);
        else if (child < 0 && &bodies[-child - 1] != body)
            pull(body, bodies[-child - 1].at, bodies[-child - 1].mass);
    }
}

static void find_pulls(long me) {
    struct supply supply = {0, 0};
    find_reach(me);
    kernel_barrier();
    if (me == 0)
        plant();
    kernel_barrier();
    for (long i = kernel_share(kernel_size, me); i < kernel_share(kernel_size, me + 1); i++)
        insert((int32_t)i, &supply);
    kernel_barrier();
    add_masses_below(me);
    kernel_barrier();
    if (me == 0)
        add_masses_above();
    kernel_barrier();
    for (long i = kernel_share(kernel_size, me); i < kernel_share(kernel_size, me + 1); i++) {
        bodies[i].pull[0] = bodies[i].pull[1] = bodies[i].pull[2] = 0;
        walk(&bodies[i], 1, 2 * half);
    }
    kernel_barrier();
}

static void body(long me) {
    for (long step = 0; step < steps; step++) {
        if (me == 0)
            tanada_mark(KERNEL_MARK_PHASE, step, 0);
        find_pulls(me);
        for (long i = kernel_share(kernel_size, me); i < kernel_share(kernel_size, me + 1); i++) {
            for (int axis = 0; axis < 3; axis++) {
                bodies[i].speed[axis] += bodies[i].pull[axis] * DT;
                bodies[i].at[axis] += bodies[i].speed[axis] * DT;
            }
        }
        kernel_barrier();
    }
}

/* Returns the error of the pull on up to 256 bodies against the sum over all bodies: the root of the sum of squares, over that of the
 * exact pulls. Infinite if the tree does not hold all bodies. */
static double error_of_pulls(void) {
    double wrong = 0, whole = 0;
    kernel_parallel(find_pulls);
    if (!(fabs(cells[1].mass - 1) < 1e-9))
        return INFINITY;
    long apart_by = kernel_size / 256 + 1;
    for (long i = 0; i < kernel_size; i += apart_by) {
        /* Not by the function that is checked: Newton's law with the softened distance. */
        double exact[3] = {0, 0, 0};
        for (long j = 0; j < kernel_size; j++) {
            double square = SOFT;
            for (int axis = 0; axis < 3; axis++)
                square += (bodies[j].at[axis] - bodies[i].at[axis]) * (bodies[j].at[axis] - bodies[i].at[axis]);
            for (int axis = 0; axis < 3; axis++)
                exact[axis] += bodies[j].mass * (bodies[j].at[axis] - bodies[i].at[axis]) * pow(square, -1.5);
        }
        for (int axis = 0; axis < 3; axis++) {
            wrong += (exact[axis] - bodies[i].pull[axis]) * (exact[axis] - bodies[i].pull[axis]);
            whole += exact[axis] * exact[axis];
        }
    }
    return sqrt(wrong / whole);
}

int main(int argc, char **argv) {
    kernel_threads = 8;
    kernel_size = 4096;
    const struct kernel_option options[] = {
        KERNEL_OPTIONS(2, 1 << 22, "bodies"),
        {"--steps", &steps, 1, 1000, "steps of time"},
        {"--theta", &theta, 1, 100, "a cell is opened if its side is more than so many hundredths of its distance"},
        {NULL, NULL, 0, 0, NULL},
    };
    kernel_start(argc, argv, "barnes", "forces between bodies by Barnes and Hut's octree", options);
    apart = (double)(int32_t)theta / 100.0 * ((double)(int32_t)theta / 100.0);
    capacity = (int32_t)(2 * kernel_size + TAKEN_AT_ONCE * kernel_threads + 1024);
    size_t body_bytes = (size_t)kernel_size * sizeof *bodies, cell_bytes = (size_t)capacity * sizeof *cells;
    kernel_reserve(body_bytes + cell_bytes + (size_t)kernel_threads * 64, 3);
    bodies = kernel_array(body_bytes);
    cells = kernel_array(cell_bytes);
    reach_of = kernel_array((size_t)kernel_threads * 64);
    pthread_mutex_init(&pool, NULL);
    for (int lock = 0; lock < LOCKS; lock++)
        pthread_mutex_init(&locks[lock], NULL);

    tanada_mark(KERNEL_MARK_BEGIN, kernel_size, kernel_threads);
    initialise();
    kernel_parallel(body);
    tanada_mark(KERNEL_MARK_END, kernel_size, kernel_threads);

    for (long i = 0; i < kernel_size; i++) {
        for (int axis = 0; axis < 3; axis++)
            kernel_add_double(bodies[i].at[axis]);
        for (int axis = 0; axis < 3; axis++)
            kernel_add_double(bodies[i].speed[axis]);
    }
    /* Monopoles err by about a tenth of theta squared on the mean. */
    return kernel_end(kernel_checks ? error_of_pulls() : 0, apart / 10 + 1e-9);
}
