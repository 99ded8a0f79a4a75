/* A hash table that all threads change and read under striped locks, with keys after Zipf's law.
 *
 * Each round has a part in which every thread adds numbers to the entries of its keys (new entries as needed), a barrier, and a part of
 * look-ups. Chains are sorted by key, and numbers are added, so the table at a barrier, and the result, are functions of the options.
 * Which thread makes an entry, and so where the entry lies in memory, depends on the order in which threads take locks: recordings with
 * several threads differ in the addresses of entries. */
#include "kernel.h"

enum { STRIPES = 64 };

static long rounds = 4, keys = 1 << 15;
static int levels, bucket_bits;

struct entry {
    uint64_t sum;
    struct entry *next;
    uint32_t key, count;
};

/* What look-ups found, of each thread: a line of 64 bytes. */
struct found {
    uint64_t entries, sum, unused[6];
};

static struct entry **buckets, *entries;
static struct found *found;
static pthread_mutex_t stripes[STRIPES];

/* Returns the key of an operation: each power of two begins an interval that is as frequent as all others, so key k has a share of about
 * 1 / k. */
static uint32_t key_of(uint64_t random) {
    uint32_t level = (uint32_t)(random & 0xFFFF) * (uint32_t)levels >> 16;
    return (UINT32_C(1) << level) + ((uint32_t)(random >> 16) & ((UINT32_C(1) << level) - 1));
}

/* Returns the place of an operation in the sequence of random numbers. A round has n additions, then n look-ups. */
static uint64_t place_of(long round, int part, long operation) {
    return 2 * ((2 * (uint64_t)round + (uint64_t)part) * (uint64_t)kernel_size + (uint64_t)operation);
}

static uint32_t bucket_of(uint32_t key) {
    return (uint32_t)(key * UINT32_C(0x9E3779B1)) >> (32 - bucket_bits);
}

/* Returns where the link to the first entry that is not below `key` stands. */
static struct entry **find(uint32_t key) {
    struct entry **link = &buckets[bucket_of(key)];
    while (*link != NULL && (*link)->key < key)
        link = &(*link)->next;
    return link;
}

/* Adds to the entry of `key`; if there is none, `spare` becomes it. Returns whether it did. */
static int add(uint32_t key, uint64_t number, struct entry *spare) {
    pthread_mutex_t *stripe = &stripes[bucket_of(key) % STRIPES];
    pthread_mutex_lock(stripe);
    struct entry **link = find(key);
    int is_new = *link == NULL || (*link)->key != key;
    if (is_new) {
        spare->key = key;
        spare->next = *link;
        *link = spare;
    }
    (*link)->sum += number;
    (*link)->count++;
    pthread_mutex_unlock(stripe);
    return is_new;
}

static void look_up(uint32_t key, struct found *found_by_me) {
    pthread_mutex_t *stripe = &stripes[bucket_of(key) % STRIPES];
    pthread_mutex_lock(stripe);
    const struct entry *entry = *find(key);
    if (entry != NULL && entry->key == key) {
        found_by_me->entries++;
        found_by_me->sum += entry->sum ^ entry->count;
    }
    pthread_mutex_unlock(stripe);
}

static void body(long me) {
    long first = kernel_share(kernel_size, me), last = kernel_share(kernel_size, me + 1);
    struct entry *spare = &entries[rounds * first];
    struct found found_by_me = {0, 0, {0}};
    for (long round = 0; round < rounds; round++) {
        if (me == 0)
            tanada_mark(KERNEL_MARK_PHASE, round, 0);
        for (long i = first; i < last; i++) {
            uint64_t place = place_of(round, 0, i);
            spare += add(key_of(kernel_random(place)), kernel_random(place + 1), spare);
        }
        kernel_barrier();
        for (long i = first; i < last; i++)
            look_up(key_of(kernel_random(place_of(round, 1, i))), &found_by_me);
        kernel_barrier();
    }
    found[me] = found_by_me;
}

/* Returns the number of entries that differ from those of a plain array, plus 1 if look-ups found something else than there. */
static double flaws(uint64_t found_entries, uint64_t found_sum) {
    struct entry *plain = calloc((size_t)keys, sizeof *plain);
    long wrong = 0;
    if (plain == NULL)
        kernel_fail(1, "there is not enough memory for the check", "");
    for (long round = 0; round < rounds; round++) {
        for (long i = 0; i < kernel_size; i++) {
            uint64_t place = place_of(round, 0, i);
            struct entry *entry = &plain[key_of(kernel_random(place))];
            entry->sum += kernel_random(place + 1);
            entry->count++;
        }
        for (long i = 0; i < kernel_size; i++) {
            const struct entry *entry = &plain[key_of(kernel_random(place_of(round, 1, i)))];
            if (entry->count > 0) {
                found_entries--;
                found_sum -= entry->sum ^ entry->count;
            }
        }
    }
    for (long key = 1; key < keys; key++) {
        const struct entry *entry = *find((uint32_t)key);
        int is_there = entry != NULL && entry->key == key;
        if (is_there != (plain[key].count > 0) ||
            (is_there && (entry->sum != plain[key].sum || entry->count != plain[key].count)))
            wrong++;
    }
    free(plain);
    return (double)(wrong + (found_entries != 0 || found_sum != 0));
}

int main(int argc, char **argv) {
    kernel_threads = 8;
    kernel_size = 1 << 15;
    const struct kernel_option options[] = {
        KERNEL_OPTIONS(1, 1 << 24, "additions, and look-ups, of a round"),
        {"--rounds", &rounds, 1, 64, "rounds"},
        {"--keys", &keys, 16, 1 << 26, "keys are below this power of 2"},
        {NULL, NULL, 0, 0, NULL},
    };
    kernel_start(argc, argv, "hash", "additions and look-ups in a shared hash table", options);
    if ((keys & (keys - 1)) != 0)
        kernel_fail(2, "--keys is no power of 2", "");
    while (1L << levels < keys)
        levels++;
    bucket_bits = levels - 2;
    if ((size_t)kernel_size > SIZE_MAX / 4 / sizeof *entries / (size_t)rounds)
        kernel_fail(1, "there is not enough memory", "");
    size_t entry_bytes = (size_t)kernel_size * (size_t)rounds * sizeof *entries;
    size_t bucket_bytes = sizeof *buckets << bucket_bits;
    kernel_reserve(entry_bytes + bucket_bytes + (size_t)kernel_threads * sizeof *found, 3);
    buckets = kernel_array(bucket_bytes);
    entries = kernel_array(entry_bytes);
    found = kernel_array((size_t)kernel_threads * sizeof *found);
    for (int stripe = 0; stripe < STRIPES; stripe++)
        pthread_mutex_init(&stripes[stripe], NULL);

    tanada_mark(KERNEL_MARK_BEGIN, kernel_size, kernel_threads);
    kernel_parallel(body);
    tanada_mark(KERNEL_MARK_END, kernel_size, kernel_threads);

    uint64_t found_entries = 0, found_sum = 0;
    for (long thread = 0; thread < kernel_threads; thread++) {
        found_entries += found[thread].entries;
        found_sum += found[thread].sum;
    }
    kernel_add(found_entries);
    kernel_add(found_sum);
    for (long key = 1; key < keys; key++) {
        const struct entry *entry = *find((uint32_t)key);
        if (entry == NULL || entry->key != key)
            continue;
        kernel_add((uint64_t)key);
        kernel_add(entry->sum);
        kernel_add(entry->count);
    }
    return kernel_end(kernel_checks ? flaws(found_entries, found_sum) : 0, 0);
}
