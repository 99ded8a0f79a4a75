/* The kernel's services. Names and rules are those of the ITRON specification; the code is this project's. */
#include "kernel.h"

kernel the;
task tasks[16];
mailbox mailboxes[16];
flag flags[4];
data_queue data_queues[4];
pool pools[4];

enum { TASKS = 16, OBJECTS = 16, FEW = 4, MOST = 255 };

static inline void lock(void)
{
    u32 status;
    __asm__ volatile("mrs %0, cpsr\n\torr %0, %0, #0xc0\n\tmsr cpsr_c, %0" : "=r"(status) : : "memory");
}

static inline void unlock(void)
{
    u32 status;
    __asm__ volatile("mrs %0, cpsr\n\tbic %0, %0, #0xc0\n\tmsr cpsr_c, %0" : "=r"(status) : : "memory");
}

#define TASK_CONTEXT if (the.nesting != 0 || the.locked) return E_CTX
#define HANDLER_CONTEXT if (the.nesting == 0 || the.locked) return E_CTX
#define MAY_WAIT if (the.nesting != 0 || the.locked || !the.enabled) return E_CTX

static inline void insert_before(queue *where, queue *entry)
{
    entry->prev = where->prev;
    entry->next = where;
    where->prev->next = entry;
    where->prev = entry;
}

static inline queue *remove(queue *entry)
{
    entry->prev->next = entry->next;
    entry->next->prev = entry->prev;
    return entry;
}

static inline int is_empty(queue *list)
{
    return list->next == list;
}

static inline u32 lowest(u32 bits)
{
    /* ARMv5: count leading zeros of the lowest bit alone. */
    return 31 - __builtin_clz(bits & -bits);
}

/* Returns whether a dispatch is needed. */
__attribute__((noinline)) static int make_ready(task *one)
{
    u32 priority = one->priority;
    one->state = READY;
    insert_before(&the.ready[priority], &one->link);
    the.bitmap |= 1u << priority;
    if (the.scheduled == 0 || priority < the.scheduled->priority) {
        the.scheduled = one;
        return the.enabled;
    }
    return 0;
}

__attribute__((noinline)) static void make_not_ready(task *one)
{
    u32 priority = one->priority;
    remove(&one->link);
    if (is_empty(&the.ready[priority]))
        the.bitmap &= ~(1u << priority);
    if (the.scheduled == one)
        the.scheduled = the.bitmap ? (task *)the.ready[lowest(the.bitmap)].next : 0;
}

__attribute__((noinline)) static int complete(task *one, int result)
{
    wait_info *wait = one->wait;
    wait->result = result;
    one->wait = 0;
    return make_ready(one);
}

__attribute__((noinline)) static void wait_in(wait_info *wait, queue *list, void *object)
{
    task *one = the.running;
    make_not_ready(one);
    one->state = WAITING;
    one->wait = wait;
    wait->object = object;
    wait->cancel = 0;
    if (list != 0)
        insert_before(list, &one->link);
}

__attribute__((noinline)) static int activate(task *one)
{
    const task_init *init = one->init;
    one->priority = init->priority;
    one->wakeups = 0;
    one->exceptions = 0;
    one->stack_pointer = (char *)init->stack + init->stack_size;
    one->resume = (void *)start_dispatch;
    return make_ready(one);
}

int act_tsk(u32 id)
{
    TASK_CONTEXT;
    if (id - 1 >= TASKS)
        return E_ID;
    task *one = &tasks[id - 1];
    int result = E_OK;
    lock();
    if (one->state == DORMANT) {
        if (activate(one))
            dispatch();
    } else if (one->activations == 0) {
        one->activations = 1;
    } else {
        result = E_QOVR;
    }
    unlock();
    return result;
}

int iact_tsk(u32 id)
{
    HANDLER_CONTEXT;
    if (id - 1 >= TASKS)
        return E_ID;
    task *one = &tasks[id - 1];
    int result = E_OK;
    lock();
    if (one->state == DORMANT) {
        if (activate(one))
            the.requested = 1;
    } else if (one->activations == 0) {
        one->activations = 1;
    } else {
        result = E_QOVR;
    }
    unlock();
    return result;
}

void ext_tsk(void)
{
    task *one = the.running;
    lock();
    make_not_ready(one);
    one->state = DORMANT;
    if (one->activations != 0) {
        one->activations = 0;
        activate(one);
    }
    dispatch();
}

int slp_tsk(void)
{
    wait_info wait;
    MAY_WAIT;
    int result = E_OK;
    lock();
    if (the.running->wakeups > 0) {
        the.running->wakeups--;
    } else {
        wait_in(&wait, 0, 0);
        dispatch();
        result = wait.result;
    }
    unlock();
    return result;
}

int wup_tsk(u32 id)
{
    TASK_CONTEXT;
    if (id - 1 >= TASKS)
        return E_ID;
    task *one = &tasks[id - 1];
    int result = E_OK;
    lock();
    if (one->state == DORMANT) {
        result = E_OBJ;
    } else if (one->state == WAITING && one->wait->object == 0) {
        if (complete(one, E_OK))
            dispatch();
    } else if (one->wakeups < MOST) {
        one->wakeups++;
    } else {
        result = E_QOVR;
    }
    unlock();
    return result;
}

int iwup_tsk(u32 id)
{
    HANDLER_CONTEXT;
    if (id - 1 >= TASKS)
        return E_ID;
    task *one = &tasks[id - 1];
    int result = E_OK;
    lock();
    if (one->state == DORMANT) {
        result = E_OBJ;
    } else if (one->state == WAITING && one->wait->object == 0) {
        if (complete(one, E_OK))
            the.requested = 1;
    } else if (one->wakeups < MOST) {
        one->wakeups++;
    } else {
        result = E_QOVR;
    }
    unlock();
    return result;
}

int dis_dsp(void)
{
    TASK_CONTEXT;
    lock();
    the.enabled = 0;
    unlock();
    return E_OK;
}

int ena_dsp(void)
{
    TASK_CONTEXT;
    lock();
    the.enabled = 1;
    if (the.running != the.scheduled)
        dispatch();
    unlock();
    return E_OK;
}

/* Flags: mode 1 waits for any of the bits, 0 for all. The bits that are found are cleared. */
static int is_met(flag *one, u32 bits, u32 mode, u32 *found)
{
    u32 there = one->bits & bits;
    if (mode ? there == 0 : there != bits)
        return 0;
    *found = one->bits;
    one->bits &= ~bits;
    return 1;
}

static int release_waiting(flag *one)
{
    int needed = 0;
    for (queue *entry = one->waiting.next; entry != &one->waiting;) {
        task *waiting = (task *)entry;
        wait_info *wait = waiting->wait;
        entry = entry->next;
        if (is_met(one, wait->value, wait->mode, &wait->value)) {
            remove(&waiting->link);
            needed |= complete(waiting, E_OK);
        }
    }
    return needed;
}

int set_flg(u32 id, u32 bits)
{
    TASK_CONTEXT;
    if (id - 1 >= FEW)
        return E_ID;
    flag *one = &flags[id - 1];
    lock();
    one->bits |= bits;
    if (!is_empty(&one->waiting) && release_waiting(one))
        dispatch();
    unlock();
    return E_OK;
}

int iset_flg(u32 id, u32 bits)
{
    HANDLER_CONTEXT;
    if (id - 1 >= FEW)
        return E_ID;
    flag *one = &flags[id - 1];
    lock();
    one->bits |= bits;
    if (!is_empty(&one->waiting) && release_waiting(one))
        the.requested = 1;
    unlock();
    return E_OK;
}

int wai_flg(u32 id, u32 bits, u32 mode, u32 *found)
{
    wait_info wait;
    MAY_WAIT;
    if (id - 1 >= FEW)
        return E_ID;
    if (bits == 0)
        return E_PAR;
    flag *one = &flags[id - 1];
    int result = E_OK;
    lock();
    if (!is_met(one, bits, mode, found)) {
        wait.value = bits;
        wait.mode = mode;
        wait_in(&wait, &one->waiting, one);
        dispatch();
        result = wait.result;
        *found = wait.value;
    }
    unlock();
    return result;
}

static inline void store(data_queue *one, u32 value)
{
    one->area[one->tail] = value;
    one->count++;
    one->tail = one->tail + 1 == one->init[1] ? 0 : one->tail + 1;
}

static inline u32 fetch(data_queue *one)
{
    u32 value = one->area[one->head];
    one->count--;
    one->head = one->head + 1 == one->init[1] ? 0 : one->head + 1;
    return value;
}

int snd_dtq(u32 id, u32 value)
{
    wait_info wait;
    MAY_WAIT;
    if (id - 1 >= FEW)
        return E_ID;
    data_queue *one = &data_queues[id - 1];
    int result = E_OK;
    lock();
    if (!is_empty(&one->waiting_receive)) {
        task *waiting = (task *)remove(one->waiting_receive.next);
        waiting->wait->value = value;
        if (complete(waiting, E_OK))
            dispatch();
    } else if (one->count < one->init[1]) {
        store(one, value);
    } else {
        wait.value = value;
        wait_in(&wait, &one->waiting_send, one);
        dispatch();
        result = wait.result;
    }
    unlock();
    return result;
}

int ipsnd_dtq(u32 id, u32 value)
{
    HANDLER_CONTEXT;
    if (id - 1 >= FEW)
        return E_ID;
    data_queue *one = &data_queues[id - 1];
    int result = E_OK;
    lock();
    if (!is_empty(&one->waiting_receive)) {
        task *waiting = (task *)remove(one->waiting_receive.next);
        waiting->wait->value = value;
        if (complete(waiting, E_OK))
            the.requested = 1;
    } else if (one->count < one->init[1]) {
        store(one, value);
    } else {
        result = E_TMOUT;
    }
    unlock();
    return result;
}

int rcv_dtq(u32 id, u32 *value)
{
    wait_info wait;
    MAY_WAIT;
    if (id - 1 >= FEW)
        return E_ID;
    data_queue *one = &data_queues[id - 1];
    int result = E_OK;
    lock();
    if (one->count > 0) {
        *value = fetch(one);
        if (!is_empty(&one->waiting_send)) {
            task *waiting = (task *)remove(one->waiting_send.next);
            store(one, waiting->wait->value);
            if (complete(waiting, E_OK))
                dispatch();
        }
    } else {
        wait_in(&wait, &one->waiting_receive, one);
        dispatch();
        result = wait.result;
        *value = wait.value;
    }
    unlock();
    return result;
}

static inline void append(mailbox *box, message *one)
{
    one->next = 0;
    if (box->head != 0)
        box->last->next = one;
    else
        box->head = one;
    box->last = one;
}

int snd_mbx(u32 id, message *one)
{
    TASK_CONTEXT;
    if (id - 1 >= OBJECTS)
        return E_ID;
    mailbox *box = &mailboxes[id - 1];
    lock();
    if (!is_empty(&box->waiting)) {
        task *waiting = (task *)remove(box->waiting.next);
        waiting->wait->value = (u32)one;
        if (complete(waiting, E_OK))
            dispatch();
    } else {
        append(box, one);
    }
    unlock();
    return E_OK;
}

int isnd_mbx(u32 id, message *one)
{
    HANDLER_CONTEXT;
    if (id - 1 >= OBJECTS)
        return E_ID;
    mailbox *box = &mailboxes[id - 1];
    lock();
    if (!is_empty(&box->waiting)) {
        task *waiting = (task *)remove(box->waiting.next);
        waiting->wait->value = (u32)one;
        if (complete(waiting, E_OK))
            the.requested = 1;
    } else {
        append(box, one);
    }
    unlock();
    return E_OK;
}

int rcv_mbx(u32 id, message **one)
{
    wait_info wait;
    MAY_WAIT;
    if (id - 1 >= OBJECTS)
        return E_ID;
    mailbox *box = &mailboxes[id - 1];
    int result = E_OK;
    lock();
    if (box->head != 0) {
        *one = box->head;
        box->head = box->head->next;
    } else {
        wait_in(&wait, &box->waiting, box);
        dispatch();
        result = wait.result;
        *one = (message *)wait.value;
    }
    unlock();
    return result;
}

int prcv_mbx(u32 id, message **one)
{
    TASK_CONTEXT;
    if (id - 1 >= OBJECTS)
        return E_ID;
    mailbox *box = &mailboxes[id - 1];
    int result = E_OK;
    lock();
    if (box->head != 0) {
        *one = box->head;
        box->head = box->head->next;
    } else {
        result = E_TMOUT;
    }
    unlock();
    return result;
}

int pget_mpf(u32 id, void **block)
{
    TASK_CONTEXT;
    if (id - 1 >= FEW)
        return E_ID;
    pool *one = &pools[id - 1];
    int result = E_OK;
    lock();
    if (one->free != 0) {
        *block = one->free;
        one->free = *(void **)one->free;
    } else {
        result = E_TMOUT;
    }
    unlock();
    return result;
}

int rel_mpf(u32 id, void *block)
{
    TASK_CONTEXT;
    if (id - 1 >= FEW)
        return E_ID;
    pool *one = &pools[id - 1];
    const char *area = (const char *)one->init[2];
    if ((char *)block < area || (u32)((char *)block - area) >= one->init[1])
        return E_PAR;
    lock();
    if (!is_empty(&one->waiting)) {
        task *waiting = (task *)remove(one->waiting.next);
        waiting->wait->value = (u32)block;
        if (complete(waiting, E_OK))
            dispatch();
    } else {
        *(void **)block = one->free;
        one->free = block;
    }
    unlock();
    return E_OK;
}

typedef struct timer {
    queue link;
    u32 time;
    void (*call)(void *);
    void *argument;
} timer;

int isig_tim(void)
{
    HANDLER_CONTEXT;
    lock();
    the.next_event += the.tick;
    the.now = the.next_event;
    while (!is_empty(&the.timers)) {
        timer *first = (timer *)the.timers.next;
        if ((int)(first->time - the.now) > 0)
            break;
        remove(&first->link);
        unlock();
        first->call(first->argument);
        lock();
    }
    unlock();
    return E_OK;
}
