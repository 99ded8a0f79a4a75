/* Runs each piece of the kernel and of the stack once, between marks of `tanada record`. What lies in the section `.harness` is no part of
   a piece: it brings the kernel into the state in which the piece takes its path. The order of pieces is that of PIECES in code.rs. */
#include "kernel.h"
#include "stack.h"

#define HARNESS __attribute__((section(".harness"), noinline))
#define AT(name) __attribute__((section(name)))

/* Kinds of marks. */
enum { BEGIN = 0, END = 1, DISPATCH = 2, ROLE = 3, SPLIT = 4, PLACE = 5 };

typedef struct ring {
    volatile u32 head, tail;
    u32 size, lost;
    struct {
        volatile u32 destination;
        u8 *volatile data;
    } entries[32];
} ring;

enum { BLOCK = 128, BLOCKS = 64, STACK = 512 };

extern ring *shared_ring;
extern volatile u32 *pe_controller, *uart, *timer_device;
extern bearer bearers[3];
extern u8 crc_table[256];
extern u16 fcs_table[256];
extern u32 statistics[16], task_of_channel[8];
extern char choose[], resumed[], interrupt_enter[], interrupt_leave[];
void __real_dispatch(void);

AT(".data") task_init inits[16];
AT(".data") u8 blocks[BLOCKS * BLOCK] __attribute__((aligned(256)));
AT(".data") u8 stacks[20][STACK] __attribute__((aligned(256)));
AT(".data") u32 flag_inits[4], pool_inits[4][4], mailbox_inits[16], queue_inits[4][2], queue_area[16];
AT(".device") volatile u32 interrupt_controller[16], pe_device[16], uart_device[4], timer_registers[4];
AT(".shared") ring the_ring;
AT(".shared") u32 frames[32][17];
struct vector {
    void (*handler)(void);
    u32 mask;
} interrupt_table[16];

u32 pe_notify_handler(void);
u32 br_ccpu_handler(u32 channel);
u32 timer_handler(void);
int take_entry(u8 **data);
void free_entry(void);
void copy_frame(u32 *to, const u32 *from, u32 bytes);
void make_message(message *one, u32 kind, void *data, u32 size, u32 number);
u32 parse_pdcp(bearer *one, const u8 *frame, u32 size);
void decompress(bearer *one, const u8 *packed, u8 *header, u32 payload);
u32 classify(bearer *one, const u8 *header, u32 bytes);
void copy_payload(bearer *one, u8 *to, const u8 *from, u32 bytes);
void put_out(const u8 *datagram, u32 bytes);
u32 put_entry(u32 destination, u32 *place, const u32 *frame, u32 bytes);
void ring_other(u32 channel);

static inline __attribute__((always_inline)) void mark(u32 kind, u32 a, u32 b)
{
    register u32 r0 __asm__("r0") = 0x7a010040 + kind;
    register u32 r1 __asm__("r1") = a;
    register u32 r2 __asm__("r2") = b;
    register u32 r3 __asm__("r3") = 0;
    register u32 r7 __asm__("r7") = 64; /* getppid */
    __asm__ volatile("svc 0" : "+r"(r0) : "r"(r1), "r"(r2), "r"(r3), "r"(r7) : "memory");
}

static inline __attribute__((always_inline)) u32 stack_pointer(void)
{
    u32 value;
    __asm__ volatile("mov %0, sp" : "=r"(value));
    return value;
}

/* What lies at `at` is moved to another place when the piece is simulated. */
HARNESS static void role(u32 number, const volatile void *at, u32 bytes)
{
    mark(ROLE, (u32)at, bytes << 4 | number);
}

u32 piece_number;
#define PIECE(call)                                  \
    do {                                             \
        mark(BEGIN, piece_number++, stack_pointer()); \
        call;                                        \
        mark(END, 0, 0);                             \
    } while (0)

/* A place that simulated objects have: number, base, bytes of each. */
HARNESS static void place(u32 number, const volatile void *base, u32 each)
{
    mark(PLACE, (u32)base, each << 8 | number);
}

/* Takes the place of the dispatcher inside of services: the other task has run, and this one goes on. */
HARNESS void __wrap_dispatch(void)
{
    mark(DISPATCH, 0, 0);
    task *one = the.running;
    if (one->wait != 0) {
        one->wait->result = 0;
        one->wait = 0;
    }
    one->state = RUNNING;
}

HARNESS static void empty(queue *list)
{
    list->next = list->prev = list;
}

/* All tasks are dormant, task 1 runs at priority 4; task 2 (priority 1) is for others to wait and to be woken. */
HARNESS static void reset(void)
{
    the.bitmap = 0;
    for (u32 at = 0; at < 16; at++) {
        empty(&the.ready[at]);
        empty(&mailboxes[at].waiting);
        mailboxes[at].head = mailboxes[at].last = 0;
        mailboxes[at].init = &mailbox_inits[at];
        tasks[at].init = &inits[at];
        inits[at].priority = at == 1 ? 1 : 4;
        inits[at].stack = stacks[at];
        inits[at].stack_size = STACK;
        tasks[at].priority = inits[at].priority;
        tasks[at].state = DORMANT;
        tasks[at].activations = tasks[at].wakeups = 0;
        tasks[at].wait = 0;
        tasks[at].exceptions = 0;
    }
    for (u32 at = 0; at < 4; at++) {
        empty(&flags[at].waiting);
        flags[at].bits = 0;
        empty(&data_queues[at].waiting_send);
        empty(&data_queues[at].waiting_receive);
        queue_inits[at][1] = 4;
        data_queues[at].init = queue_inits[at];
        data_queues[at].area = queue_area;
        data_queues[at].count = data_queues[at].head = data_queues[at].tail = 0;
        empty(&pools[at].waiting);
        pool_inits[at][1] = sizeof blocks;
        pool_inits[at][2] = (u32)blocks;
        pools[at].init = pool_inits[at];
        pools[at].free = blocks;
        *(void **)blocks = blocks + BLOCK;
    }
    empty(&the.timers);
    the.enabled = 1;
    the.requested = the.nesting = the.locked = 0;
    the.running = the.scheduled = &tasks[0];
    tasks[0].state = RUNNING;
    tasks[0].link.next = tasks[0].link.prev = &the.ready[4];
    the.ready[4].next = the.ready[4].prev = &tasks[0].link;
    the.bitmap = 1 << 4;
    /* Another task of the same priority, so that there is always one to be scheduled. */
    tasks[4].state = READY;
    tasks[4].link.next = &the.ready[4];
    tasks[4].link.prev = &tasks[0].link;
    tasks[0].link.next = &tasks[4].link;
    the.ready[4].prev = &tasks[4].link;
}

static wait_info waiting_info;

/* Task 2 waits in `list` for `object`. */
HARNESS static void let_wait(queue *list, void *object, u32 value)
{
    task *one = &tasks[1];
    one->state = WAITING;
    one->wait = &waiting_info;
    waiting_info.object = object;
    waiting_info.value = value;
    waiting_info.mode = 1;
    if (list != 0) {
        one->link.prev = list->prev;
        one->link.next = list;
        list->prev->next = &one->link;
        list->prev = &one->link;
    }
}

/* 1: the task that is spoken of; 2: the stack of the one that waits, in which its wait_info is; 3: the object; 4: a message or block. */
HARNESS static void roles(task *one, void *object, u32 object_bytes, void *data)
{
    role(1, one, sizeof(task));
    role(2, &waiting_info, sizeof waiting_info);
    role(3, object, object_bytes);
    role(4, data, BLOCK);
    role(5, &tasks[0], sizeof(task));
}

HARNESS static void services(void)
{
    message *one = (message *)blocks, *found;
    void *block;
    u32 bits;
    /* Before each: which objects stand for others. Then the kernel is as it would be there. */
#define TASK(set, nest, call)                     \
    reset(), roles(&tasks[1], &tasks[1], 1, one); \
    set;                                          \
    the.nesting = nest;                           \
    PIECE(call)
#define OBJECT(object, set, nest, call)                            \
    reset(), roles(&tasks[1], &object, sizeof object, one); \
    set;                                                           \
    the.nesting = nest;                                            \
    PIECE(call)
    TASK(, 0, act_tsk(2));
    TASK(tasks[1].state = READY, 0, act_tsk(2));
    TASK(, 1, iact_tsk(2));
    TASK(tasks[1].state = READY, 1, iact_tsk(2));
    TASK(, 0, ext_tsk());
    TASK(, 0, slp_tsk());
    TASK(tasks[0].wakeups = 1, 0, slp_tsk());
    TASK(let_wait(0, 0, 0), 0, wup_tsk(2));
    TASK(tasks[1].state = READY, 0, wup_tsk(2));
    TASK(let_wait(0, 0, 0), 1, iwup_tsk(2));
    TASK(tasks[1].state = READY, 1, iwup_tsk(2));
    TASK(, 0, dis_dsp());
    TASK((the.enabled = 0, the.scheduled = &tasks[1]), 0, ena_dsp());
    TASK(the.enabled = 0, 0, ena_dsp());
    OBJECT(flags[0], let_wait(&flags[0].waiting, &flags[0], 1), 0, set_flg(1, 1));
    OBJECT(flags[0], , 0, set_flg(1, 1));
    OBJECT(flags[0], let_wait(&flags[0].waiting, &flags[0], 1), 1, iset_flg(1, 1));
    OBJECT(flags[0], , 1, iset_flg(1, 1));
    OBJECT(flags[0], , 0, wai_flg(1, 1, 1, &bits));
    OBJECT(flags[0], flags[0].bits = 1, 0, wai_flg(1, 1, 1, &bits));
    OBJECT(data_queues[0], let_wait(&data_queues[0].waiting_receive, &data_queues[0], 0), 0, snd_dtq(1, 1));
    OBJECT(data_queues[0], , 0, snd_dtq(1, 1));
    OBJECT(data_queues[0], data_queues[0].count = 4, 0, snd_dtq(1, 1));
    OBJECT(data_queues[0], let_wait(&data_queues[0].waiting_receive, &data_queues[0], 0), 1, ipsnd_dtq(1, 1));
    OBJECT(data_queues[0], , 1, ipsnd_dtq(1, 1));
    OBJECT(data_queues[0], data_queues[0].count = 4, 1, ipsnd_dtq(1, 1));
    OBJECT(data_queues[0], data_queues[0].count = 1, 0, rcv_dtq(1, &bits));
    OBJECT(data_queues[0], (data_queues[0].count = 4, let_wait(&data_queues[0].waiting_send, &data_queues[0], 0)), 0, rcv_dtq(1, &bits));
    OBJECT(data_queues[0], , 0, rcv_dtq(1, &bits));
    OBJECT(mailboxes[0], let_wait(&mailboxes[0].waiting, &mailboxes[0], 0), 0, snd_mbx(1, one));
    OBJECT(mailboxes[0], , 0, snd_mbx(1, one));
    OBJECT(mailboxes[0], let_wait(&mailboxes[0].waiting, &mailboxes[0], 0), 1, isnd_mbx(1, one));
    OBJECT(mailboxes[0], , 1, isnd_mbx(1, one));
    OBJECT(mailboxes[0], mailboxes[0].head = one, 0, rcv_mbx(1, &found));
    OBJECT(mailboxes[0], , 0, rcv_mbx(1, &found));
    OBJECT(mailboxes[0], mailboxes[0].head = one, 0, prcv_mbx(1, &found));
    OBJECT(mailboxes[0], , 0, prcv_mbx(1, &found));
    OBJECT(pools[0], , 0, pget_mpf(1, &block));
    OBJECT(pools[0], pools[0].free = 0, 0, pget_mpf(1, &block));
    OBJECT(pools[0], , 0, rel_mpf(1, blocks));
    OBJECT(pools[0], , 1, isig_tim());
}

/* Goes on behind a switch or an interrupt: to the place in `back`, with the registers and the stack that were saved there. */
u32 back[10] __attribute__((used));

__attribute__((section(".harness"), naked, noinline, returns_twice)) static int save(void)
{
    __asm__("ldr r0, =back\n\tstmia r0, {r4-r11, sp, lr}\n\tmov r0, #0\n\tbx lr\n\t.pool");
}

__attribute__((section(".harness"), naked)) static void restore(void)
{
    __asm__("ldr r1, =back\n\tldmia r1, {r4-r11, sp, lr}\n\tmov r0, #1\n\tbx lr\n\t.pool");
}

HARNESS static void ended(void)
{
    mark(END, 0, 0);
    restore();
}

/* From task 1 to task 2, which either was switched out before or begins. 0: the stack of task 1; 1: task 1; 2: task 2's control block; 3: the
   stack of task 2. */
HARNESS static void switches(int begins)
{
    reset();
    role(1, &tasks[0], sizeof(task));
    role(2, &tasks[1], sizeof(task));
    role(3, stacks[1], STACK);
    the.scheduled = &tasks[1];
    u32 *top = (u32 *)(stacks[1] + STACK - 64);
    for (u32 at = 0; at < 9; at++)
        top[at] = (u32)ended;
    tasks[1].stack_pointer = top;
    tasks[1].resume = begins ? (void *)start_dispatch : (void *)resumed;
    inits[1].entry = (void (*)(u32))ended;
    mark(SPLIT, (u32)choose, (u32)top);
    if (save() == 0) {
        mark(BEGIN, piece_number++, stack_pointer());
        __real_dispatch();
    }
}

/* The handler: the entry has ended, the exit begins. Not in C, which would push registers. */
__attribute__((section(".harness"), naked)) static void in_handler(void)
{
    __asm__("mov r7, #64\n\tldr r0, =0x7a010041\n\tmov r3, #0\n\tsvc 0\n\t"
            "ldr r0, =0x7a010040\n\tldr r1, =piece_number\n\tldr r2, [r1]\n\tadd r12, r2, #1\n\tstr r12, [r1]\n\t"
            "mov r1, r2\n\tmov r2, sp\n\tsvc 0\n\tb interrupt_leave\n\t.pool");
}

__attribute__((section(".harness"), naked)) static void accept(void)
{
    __asm__("ldr lr, =ended\n\tadd lr, lr, #4\n\tb interrupt_enter\n\t.pool");
}

/* An interrupt's entry and exit, without and with a dispatch at the end, and nested. 0: the interrupted stack; 3: that of interrupts. */
HARNESS static void interrupts(int requested, int nesting)
{
    reset();
    role(1, &tasks[0], sizeof(task));
    role(2, &tasks[1], sizeof(task));
    role(3, stacks[19], STACK);
    interrupt_controller[0] = 1;
    interrupt_table[1].handler = in_handler;
    the.interrupt_stack = stacks[19] + STACK - 32;
    the.requested = requested;
    the.nesting = nesting;
    if (requested)
        the.scheduled = &tasks[1];
    mark(SPLIT, 0, (u32)the.interrupt_stack);
    if (save() == 0) {
        mark(BEGIN, piece_number++, stack_pointer());
        accept();
    }
}

/* The tables of both checksums. */
HARNESS static void tables(void)
{
    for (u32 at = 0; at < 256; at++) {
        u32 crc = at, fcs = at;
        for (u32 bit = 0; bit < 8; bit++) {
            crc = crc & 1 ? crc >> 1 ^ 0xe0 : crc >> 1;
            fcs = fcs & 1 ? fcs >> 1 ^ 0x8408 : fcs >> 1;
        }
        crc_table[at] = crc;
        fcs_table[at] = fcs;
    }
}

HARNESS static void stack_pieces(void)
{
    reset();
    u8 *data;
    u8 *frame_block = blocks, *datagram_block = blocks + BLOCK;
    u8 *frame = frame_block + 24, *datagram = datagram_block + 24;
    shared_ring = &the_ring;
    the_ring.size = 32;
    pe_controller = pe_device;
    uart = uart_device;
    timer_device = timer_registers;
    role(1, frame_block, BLOCK);
    role(2, datagram_block, BLOCK);
    role(3, &bearers[0], sizeof(bearer));
    role(4, frames[1], sizeof frames[1]);
    role(5, &the_ring.entries[1], sizeof the_ring.entries[1]);
    for (u32 at = 0; at < 3; at++)
        bearers[at].receiver = 14, bearers[at].window = 16, bearers[at].profile = 1;
    frame[0] = 2 << 5 | 1;
    the_ring.head = 1, the_ring.tail = 2;
    the_ring.entries[1].destination = 14;
    pe_device[0] = pe_device[1] = 1;
    PIECE(pe_notify_handler());
    PIECE(br_ccpu_handler(0));
    PIECE(timer_handler());
    PIECE(take_entry(&data));
    the_ring.tail = 1;
    PIECE(take_entry(&data));
    PIECE(copy_frame((u32 *)frame, frames[1], 66));
    PIECE(free_entry());
    frame[0] = 2 << 5 | 1;
    PIECE(make_message((message *)frame_block, 1, frame, 66, 0));
    PIECE(parse_pdcp(&bearers[0], frame, 66));
    for (u32 at = 2; at < 66; at++)
        frame[at] = 'A' + at % 26;
    frame[2] = 0x80 | 5;
    for (u32 at = 0; at < 7; at++)
        bearers[0].state_of_headers.references[3].header[at] = 0x11400045u + at;
    bearers[0].filters[2].highest = 0xffff;
    bearers[0].filters[0].address = bearers[0].filters[1].address = 1;
    tables();
    PIECE(decompress(&bearers[0], frame + 2, datagram, 60));
    PIECE(classify(&bearers[0], datagram, 88));
    PIECE(copy_payload(&bearers[0], datagram + 28, frame + 6, 60));
    PIECE(make_message((message *)datagram_block, 1, datagram, 88, 0));
    PIECE(put_out(datagram, 88));
    the_ring.head = 0, the_ring.tail = 1;
    PIECE(put_entry(14, frames[1], (u32 *)frame, 66));
    PIECE(ring_other(0));
}

__attribute__((section(".harness"), noreturn)) void _start(void)
{
    place(0, tasks, sizeof(task));
    place(1, mailboxes, sizeof(mailbox));
    place(2, flags, sizeof(flag));
    place(3, data_queues, sizeof(data_queue));
    place(4, pools, sizeof(pool));
    place(5, bearers, sizeof(bearer));
    place(6, blocks, BLOCK);
    place(7, stacks, STACK);
    place(8, frames, sizeof frames[0]);
    place(9, the_ring.entries, sizeof the_ring.entries[0]);
    place(10, interrupt_controller, 256);
    place(11, &the_ring, 4096);
    services();
    switches(0);
    switches(1);
    interrupts(0, 0);
    interrupts(1, 0);
    interrupts(0, 1);
    stack_pieces();
    register u32 r0 __asm__("r0") = 0;
    register u32 r7 __asm__("r7") = 248; /* exit_group */
    __asm__ volatile("svc 0" : : "r"(r0), "r"(r7));
    for (;;)
        ;
}
