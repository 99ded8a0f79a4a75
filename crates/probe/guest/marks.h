/* The numbers of marks, one a line. crates/probe/src/marks.rs reads them from this file when it is compiled. */
enum {
    /* Added to a kind: recording goes on behind the mark. */
    RESUME = 0x100,
    /* Kinds of the library. */
    HELLO = 1,
    PAUSE = 2,
    RESUMED = 3,
    CREATE = 4,
    START = 5,
    JOIN = 6,
    LOCK = 7,
    SHARE = 8,
    UNLOCK = 9,
    BARRIER = 10,
    WAIT = 11,
    SIGNAL = 12,
    BROADCAST = 13,
    POST = 14,
    TAKE = 15,
    REGION = 16,
    REGION_END = 17,
    LOOP = 18,
    ITERATION = 19,
    LOOP_END = 20,
    EXIT = 21,
    TEAM_BARRIER = 22,
    TASKS = 23,
    SPAWNED = 24,
    /* The Tanada runtime's lines of text (crates/runtime/src/marks/call.rs). */
    TEXT = 0x30,
    /* The first kind of programs' own marks, up to 0xff (crates/workloads/kernels/kernel.h, docs/recording.md). */
    OWN = 0x40,
};

/* The first argument of each mark, without the kind. */
static const long MAGIC = 0x7a010000;
