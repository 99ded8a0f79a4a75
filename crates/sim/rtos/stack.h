/* What layer 2 knows of a bearer. */
#ifndef STACK_H
#define STACK_H

#include "kernel.h"

enum { FILTERS = 3 };

typedef struct reference {
    u32 header[7];
    u32 sequence, number;
} reference;

/* Of header compression. */
typedef struct context {
    u32 mode, confidence, failures, sequence, offset, next;
    reference references[4];
} context;

typedef struct filter {
    u32 address, mask;
    u16 lowest, highest;
    u8 protocol, service, local, unused;
    u32 packets, octets;
} filter;

typedef struct bearer {
    u32 receiver, mailbox, pool, state;
    u32 expected, window, received, lost, bytes;
    u32 profile, context, checksum, errors, unknown, last_address;
    context state_of_headers;
    filter filters[FILTERS];
} bearer;

#endif
