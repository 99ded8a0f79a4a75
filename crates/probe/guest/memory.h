/* Memory of the recorded program: a region of addresses a thread, by creation number, so that addresses do not follow from time. */

/* Until the first thread is created, glibc's own allocator serves: nothing depends on time yet. */
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
void __libc_free(void *);

#if UINTPTR_MAX > 0xffffffffu
#define BASE ((uintptr_t)1 << 44)
#define SPAN ((uintptr_t)1 << 34)
#define STACKS ((uintptr_t)1 << 43)
#define MOST_REGIONS 4096
#else
#define BASE ((uintptr_t)0x10000000)
#define SPAN ((uintptr_t)0x00800000)
#define MOST_REGIONS 64
#endif
#define PIECE ((size_t)1 << 20)
#define CLASSES 160

struct head { size_t size; struct head *next; };
#define HEAD 16

static int threaded; /* a thread was created */
static __thread HOT uintptr_t top, end;
static __thread HOT struct head *lists[CLASSES];

static inline int ours(const void *p) {
    return (uintptr_t)p - BASE < SPAN * MOST_REGIONS;
}

/* Returns the class of a block of at least `size` bytes, and its size: four classes a power of two. */
static unsigned class_of(size_t *size) {
    size_t n = *size < 64 ? 64 : *size;
    unsigned bits = 8 * sizeof(long) - 1 - __builtin_clzl(n - 1);
    size_t step = (size_t)1 << (bits - 2);
    size_t rounded = (n + step - 1) & ~(step - 1);
    *size = (rounded + 15) & ~(size_t)15;
    return 4 * bits + (unsigned)((rounded - 1) >> (bits - 2) & 3);
}

/* Apart from the functions that replace glibc's, so that these are short: they count as the program's. */
#define LONG static __attribute__((noinline))

LONG void *take(size_t bytes) {
    size_t size = bytes + HEAD;
    if (size < bytes || size > SIZE_MAX / 4) {
        errno = ENOMEM;
        return 0;
    }
    unsigned class = class_of(&size);
    struct head *h = class < CLASSES ? lists[class] : 0;
    if (h) {
        lists[class] = h->next;
        return (char *)h + HEAD;
    }
    if (!top)
        top = end = BASE + SPAN * (me % MOST_REGIONS);
    if (end - top < size) {
        size_t more = (size - (end - top) + PIECE - 1) & ~(PIECE - 1);
        uintptr_t limit = BASE + SPAN * (me % MOST_REGIONS) + SPAN;
        void *got = MAP_FAILED;
        if (more <= limit - end && me < MOST_REGIONS)
            got = mmap((void *)end, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (got != (void *)end) {
            /* The region is full or its addresses are taken: glibc's allocator serves, and addresses may follow from time. */
            if (got != MAP_FAILED)
                munmap(got, more);
            return __libc_malloc(bytes);
        }
        end += more;
    }
    h = (struct head *)top;
    top += size;
    h->size = size;
    return (char *)h + HEAD;
}

/* Returns whether glibc's allocator serves: before there are threads, and for what a wrapped call takes for itself. That can follow from
 * time, and would move what the program takes later. */
static inline int apart(void) {
    return depth || !__atomic_load_n(&threaded, __ATOMIC_RELAXED);
}

static inline size_t room(void *p) {
    return (((struct head *)((char *)p - HEAD))->size & ~(size_t)15) - HEAD;
}

void *malloc(size_t bytes) {
    return apart() ? __libc_malloc(bytes) : take(bytes);
}

LONG void give(void *p) {
    struct head *h = (struct head *)((char *)p - HEAD);
    size_t size = h->size;
    unsigned class = class_of(&size);
    if (class < CLASSES && size == h->size) {
        h->next = lists[class];
        lists[class] = h;
    }
}

void free(void *p) {
    if (ours(p))
        give(p);
    /* A block of glibc's. Outside of wrapped calls another thread than the first leaves it: who frees first would follow from time. */
    else if (me == 0 || depth)
        __libc_free(p);
}

LONG void *take_zeroed(size_t n, size_t each) {
    size_t bytes;
    if (__builtin_mul_overflow(n, each, &bytes)) {
        errno = ENOMEM;
        return 0;
    }
    void *p = take(bytes);
    return p ? memset(p, 0, bytes) : p;
}

void *calloc(size_t n, size_t each) {
    return apart() ? __libc_calloc(n, each) : take_zeroed(n, each);
}

LONG size_t of_glibc(void *p) {
    static size_t (*size)(void *);
    if (!size)
        size = (size_t (*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    return size(p);
}

size_t malloc_usable_size(void *p) {
    return ours(p) ? room(p) : p ? of_glibc(p) : 0;
}

LONG void *move(void *p, size_t bytes) {
    if (!p)
        return malloc(bytes);
    if (!bytes) {
        free(p);
        return 0;
    }
    size_t old = malloc_usable_size(p);
    if (ours(p) && bytes <= old)
        return p;
    void *q = take(bytes);
    if (q) {
        memcpy(q, p, old < bytes ? old : bytes);
        free(p);
    }
    return q;
}

void *realloc(void *p, size_t bytes) {
    return apart() && !ours(p) ? __libc_realloc(p, bytes) : move(p, bytes);
}

void *memalign(size_t align, size_t bytes) {
    if (apart())
        return __libc_memalign(align, bytes);
    if (align <= HEAD)
        return take(bytes);
    /* The block before the aligned address stays unused; its own head keeps the rest from being taken for a whole block. */
    char *p = take(bytes + align + HEAD);
    if (!p || !ours(p))
        return p && (uintptr_t)p % align ? __libc_memalign(align, bytes) : p;
    char *q = (char *)(((uintptr_t)p + align - 1) & ~(uintptr_t)(align - 1));
    if (q != p)
        ((struct head *)(q - HEAD))->size = (room(p) - (size_t)(q - p) + HEAD) | 1;
    return q;
}

void *aligned_alloc(size_t align, size_t bytes) {
    return memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes) {
    if (align < sizeof(void *) || align & (align - 1))
        return EINVAL;
    void *p = memalign(align, bytes);
    if (!p)
        return ENOMEM;
    *out = p;
    return 0;
}

void *valloc(size_t bytes) {
    return memalign(4096, bytes);
}
