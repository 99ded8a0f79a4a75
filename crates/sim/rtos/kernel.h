/* A small kernel with an ITRON-style API, written for this project: what the simulated cores execute is a recording of it. */
#ifndef KERNEL_H
#define KERNEL_H

typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

typedef struct queue {
    struct queue *next, *prev;
} queue;

enum { READY = 1, WAITING = 2, DORMANT = 8, RUNNING = 16 };
enum { E_OK = 0, E_PAR = -17, E_ID = -18, E_CTX = -25, E_OBJ = -41, E_QOVR = -43, E_TMOUT = -50 };

/* What never changes of a task. */
typedef struct task_init {
    u32 attributes;
    u32 argument;
    void (*entry)(u32);
    u32 priority;
    u32 stack_size;
    void *stack;
} task_init;

/* What a waiting task waits for. */
typedef struct wait_info {
    int result;
    void *object;
    u32 value;
    u32 mode;
    void (*cancel)(void *);
} wait_info;

/* A task control block. */
typedef struct task {
    queue link;
    const task_init *init;
    u8 priority, state, activations, wakeups;
    wait_info *wait;
    u32 exceptions;
    void *stack_pointer;
    void *resume;
    u32 times;
} task;

typedef struct message {
    struct message *next;
    u32 kind;
    void *data;
    u32 size;
    u32 bearer;
} message;

typedef struct mailbox {
    queue waiting;
    const u32 *init;
    message *head, *last;
} mailbox;

typedef struct flag {
    queue waiting;
    const u32 *init;
    u32 bits;
} flag;

typedef struct data_queue {
    queue waiting_send, waiting_receive;
    const u32 *init;
    u32 count, head, tail;
    u32 *area;
} data_queue;

typedef struct pool {
    queue waiting;
    const u32 *init;
    void *unused;
    void *free;
} pool;

/* What the kernel knows of itself. */
typedef struct kernel {
    task *running, *scheduled;
    u32 enabled, requested, nesting, locked;
    void *task_stack, *interrupt_stack;
    u32 bitmap;
    u32 now, next_event, tick;
    queue ready[16];
    queue timers;
} kernel;

extern kernel the;
extern task tasks[16];
extern mailbox mailboxes[16];
extern flag flags[4];
extern data_queue data_queues[4];
extern pool pools[4];

void dispatch(void);
void start_dispatch(void);

int act_tsk(u32 id);
int iact_tsk(u32 id);
void ext_tsk(void);
int slp_tsk(void);
int wup_tsk(u32 id);
int iwup_tsk(u32 id);
int dis_dsp(void);
int ena_dsp(void);
int set_flg(u32 id, u32 bits);
int iset_flg(u32 id, u32 bits);
int wai_flg(u32 id, u32 bits, u32 mode, u32 *found);
int snd_dtq(u32 id, u32 value);
int ipsnd_dtq(u32 id, u32 value);
int rcv_dtq(u32 id, u32 *value);
int snd_mbx(u32 id, message *one);
int isnd_mbx(u32 id, message *one);
int rcv_mbx(u32 id, message **one);
int prcv_mbx(u32 id, message **one);
int pget_mpf(u32 id, void **block);
int rel_mpf(u32 id, void *block);
int isig_tim(void);

#endif
