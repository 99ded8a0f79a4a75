// C++: objects with constructors and destructors as data of regions, loops and tasks; exceptions within them.
#include "check.h"
#include <atomic>
#include <omp.h>
#include <stdexcept>
#include <string>
#include <vector>

static std::atomic<long> alive{0};
static std::atomic<long> copies{0};

// Counts how many of its kind exist, and knows whether it was copied bit by bit: then it points to another one.
struct Counted {
    explicit Counted(int value = 0) : self(this), value(value), text("a string that is too long to lie within the object") { alive++; }
    Counted(const Counted &other) : self(this), value(other.value), text(other.text)
    {
        alive++;
        copies++;
        CHECK(other.self == &other, "a copy of a whole object");
    }
    Counted &operator=(const Counted &other)
    {
        value = other.value;
        text = other.text;
        return *this;
    }
    ~Counted()
    {
        CHECK(self == this, "an object is destroyed where it was made");
        self = nullptr;
        alive--;
    }
    bool whole() const { return self == this && text.size() == 50; }

    const Counted *self;
    int value;
    std::string text;
};

static Counted sum_of(const Counted &a, const Counted &b)
{
    return Counted(a.value + b.value);
}

#pragma omp declare reduction(plus : Counted : omp_out = sum_of(omp_out, omp_in)) initializer(omp_priv = Counted(0))

static void regions()
{
    Counted first(3), last(0), sum(100);
#pragma omp parallel num_threads(3) firstprivate(first)
    {
        CHECK(first.whole() && first.value == 3, "firstprivate object of a region");
        first.value = 4;
    }
#pragma omp parallel num_threads(3)
    {
/* Monotonic, since LLVM 14 loses the last value if its threads steal iterations. */
#pragma omp for firstprivate(first) lastprivate(last) schedule(monotonic : dynamic)
        for (int i = 0; i < 100; i++)
            last.value = i + first.value + 1;
    }
    CHECK(first.value == 3 && last.value == 103, "lastprivate object");
#pragma omp parallel for num_threads(3) reduction(plus : sum)
    for (int i = 0; i < 100; i++)
        sum.value += i;
    CHECK(sum.value == 5050 && sum.whole(), "reduction of objects");
    Counted given(0);
#pragma omp parallel num_threads(3) private(given)
    {
#pragma omp single copyprivate(given)
        given.value = 77;
        CHECK(given.value == 77, "copyprivate object");
    }
}

static void tasks()
{
    std::atomic<int> wrong{0};
    std::atomic<int> ran{0};
#pragma omp parallel num_threads(3)
#pragma omp single
    {
        for (int i = 0; i < 200; i++) {
            Counted object(i);
            std::vector<int> line(static_cast<size_t>(i), i);
#pragma omp task firstprivate(object, line, i) shared(wrong, ran)
            {
                wrong += !object.whole() || object.value != i || line.size() != static_cast<size_t>(i);
                object.value = -1;
                line.push_back(1);
                ran++;
            }
        }
        Counted object(5);
#pragma omp task if (0) firstprivate(object) shared(wrong, ran)
        {
            wrong += !object.whole() || object.value != 5;
            ran++;
        }
#pragma omp taskloop firstprivate(object) num_tasks(7) shared(wrong, ran)
        for (int i = 0; i < 70; i++) {
            wrong += !object.whole() || object.value < 5;
            object.value++;
            ran++;
        }
        Counted last(0);
#pragma omp taskloop lastprivate(last) grainsize(5)
        for (int i = 0; i < 64; i++)
            last.value = i;
        wrong += last.value != 63 || !last.whole();
    }
    CHECK(wrong == 0, "firstprivate objects of tasks");
    CHECK(ran == 271, "tasks with objects");
    CHECK(copies > 0, "objects are copied by their constructor");
}

static void throws(int depth)
{
    Counted here(depth);
    if (depth == 0)
        throw std::runtime_error("from the depth");
    throws(depth - 1);
    CHECK(here.value >= 0, "the stack unwinds");
}

// An exception stays within the task, region or iteration that throws it; destructors run on its way.
static void exceptions()
{
    std::atomic<int> caught{0};
#pragma omp parallel num_threads(3)
    {
        try {
            throws(5);
        } catch (const std::runtime_error &) {
            caught++;
        }
#pragma omp for
        for (int i = 0; i < 50; i++) {
            try {
                throws(i % 3);
            } catch (const std::exception &) {
                caught++;
            }
        }
    }
    CHECK(caught >= 51 && caught <= 53, "exceptions in regions and loops");
    caught = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
    for (int i = 0; i < 200; i++) {
        Counted object(i);
#pragma omp task firstprivate(object) shared(caught)
        {
            try {
                throws(object.value % 4);
            } catch (const std::runtime_error &error) {
                caught += std::string(error.what()) == "from the depth";
            }
#pragma omp task firstprivate(object) shared(caught)
            {
                try {
                    throw object;
                } catch (const Counted &thrown) {
                    caught += thrown.whole();
                }
            }
#pragma omp taskwait
        }
    }
    CHECK(caught == 400, "exceptions in tasks");
    // Out of a region that runs in a function with a handler: the handler is outside, the region is not left by it.
    int outside = 0;
    try {
#pragma omp parallel num_threads(2)
        {
#pragma omp critical
            outside++;
        }
        throw 7;
    } catch (int value) {
        CHECK(value == 7 && outside >= 1, "an exception after a region");
    }
}

struct Base {
    virtual ~Base() = default;
    virtual int number() const { return 1; }
};

struct Derived : Base {
    explicit Derived(int n) : n(n) {}
    int number() const override { return n; }
    int n;
};

// Lambdas, templates and virtual calls within regions.
template <class F>
static void each(int n, F body)
{
#pragma omp parallel for num_threads(3) schedule(guided)
    for (int i = 0; i < n; i++)
        body(i);
}

static void lambdas()
{
    std::vector<long> out(500);
    Derived derived(3);
    const Base &base = derived;
    each(500, [&](int i) { out[static_cast<size_t>(i)] = i * base.number(); });
    long sum = 0;
    for (long x : out)
        sum += x;
    CHECK(sum == 3 * 124750, "lambdas in a loop");
}

int main()
{
    omp_set_dynamic(0);
    regions();
    tasks();
    exceptions();
    lambdas();
    CHECK(alive == 0, "each object is destroyed once");
    return finish();
}
