/* What the tasks and handlers of the layer-2 stack do between two services: written after section 3 of paper 3, and the formats of PDCP
   and IP. Frames have 66 bytes: a PDCP header of 2, compressed headers of 4, and 60 of payload. */
#include "kernel.h"

enum { FRAME = 66, BEARERS = 3 };

/* The ring in the memory that both cores share. */
typedef struct ring {
    volatile u32 head, tail;
    u32 size, lost;
    struct {
        volatile u32 destination;
        u8 *volatile data;
    } entries[32];
} ring;

/* stack.h has the same for the recorder. */
#include "stack.h"

ring *shared_ring;
volatile u32 *pe_controller, *uart, *timer_device;
bearer bearers[BEARERS];
u32 task_of_channel[8] = {3, 3, 3, 3, 3, 3, 3, 3};
u32 statistics[16];
u8 crc_table[256];
u16 fcs_table[256];
const u8 ppp_header[4] = {0xff, 0x03, 0x00, 0x21};

/* Inter-core interrupt: which channels rang, acknowledge, and call each one's handler. Returns the channel. */
u32 pe_notify_handler(void)
{
    u32 pending = pe_controller[0] & pe_controller[1];
    u32 channel = 31 - __builtin_clz(pending);
    pe_controller[2] = 1u << channel;
    statistics[0]++;
    return channel;
}

/* The channel of messages: looks whether there is something, and finds the task to be woken. */
u32 br_ccpu_handler(u32 channel)
{
    ring *one = shared_ring;
    statistics[1]++;
    if (one->head == one->tail) {
        statistics[2]++;
        return 0;
    }
    pe_controller[4 + channel] = 1;
    return task_of_channel[channel];
}

/* The hardware timer: acknowledge, reload, and look at the ring. Returns the task to be woken, or 0. */
u32 timer_handler(void)
{
    ring *one = shared_ring;
    timer_device[3] = 1;
    timer_device[1] = timer_device[0];
    statistics[3]++;
    return one->head == one->tail ? 0 : task_of_channel[0];
}

/* Takes one entry out of the ring. Returns the bearer, or -1. */
int take_entry(u8 **data)
{
    ring *one = shared_ring;
    u32 head = one->head;
    if (head == one->tail)
        return -1;
    u32 destination = one->entries[head].destination;
    *data = one->entries[head].data;
    for (int number = 0; number < BEARERS; number++)
        if (bearers[number].receiver == destination) {
            bearers[number].received++;
            return number;
        }
    statistics[4]++;
    return -1;
}

/* Gives the entry's place back. */
void free_entry(void)
{
    ring *one = shared_ring;
    u32 head = one->head + 1;
    one->head = head == one->size ? 0 : head;
}

/* Copies a frame out of the shared memory. */
void copy_frame(u32 *to, const u32 *from, u32 bytes)
{
    u32 words = bytes >> 2;
    for (; words >= 4; words -= 4) {
        u32 a = from[0], b = from[1], c = from[2], d = from[3];
        to[0] = a, to[1] = b, to[2] = c, to[3] = d;
        from += 4, to += 4;
    }
    for (; words > 0; words--)
        *to++ = *from++;
    const u8 *rest = (const u8 *)from;
    u8 *end = (u8 *)to;
    for (bytes &= 3; bytes > 0; bytes--)
        *end++ = *rest++;
}

/* Makes a message of a frame for the next layer. */
void make_message(message *one, u32 kind, void *data, u32 size, u32 number)
{
    one->kind = kind;
    one->data = data;
    one->size = size;
    one->bearer = number;
}

/* The header of a PDCP frame: kind, sequence number, and what the receiver's window says of it. Returns the payload's place. */
u32 parse_pdcp(bearer *one, const u8 *frame, u32 size)
{
    u32 kind = frame[0] >> 5;
    u32 place = 1;
    if (size < 3) {
        one->errors++;
        return 0;
    }
    one->bytes += size;
    switch (kind) {
    case 0:
        break;
    case 1:
        place = 1;
        break;
    case 2: {
        u32 sequence = (u32)frame[1];
        u32 distance = (sequence - one->expected) & 0xff;
        if (distance > one->window) {
            one->lost++;
            one->errors++;
            return 0;
        }
        one->lost += distance;
        one->expected = (sequence + 1) & 0xff;
        place = 2;
        break;
    }
    default:
        one->errors++;
        return 0;
    }
    if ((frame[0] & 0x1f) != one->profile) {
        one->errors++;
        return 0;
    }
    return place;
}

/* Robust header compression, RFC 3095: least significant bits are those of the one number near the reference that ends with them (4.5.1). */
static __attribute__((noinline)) u32 decode_bits(u32 reference, u32 bits, u32 width, int before)
{
    u32 span = 1u << width, low = reference - (u32)before;
    u32 value = (low & ~(span - 1)) | (bits & (span - 1));
    if (value - low >= span && value < low)
        value += span;
    return value & 0xffff;
}

/* The checksum of 3 or 8 bits over the header that was made, 5.9.1. */
static __attribute__((noinline)) u32 crc_of(const u8 *header, u32 bytes, u32 crc)
{
    for (u32 at = 0; at < bytes; at++)
        crc = crc_table[(crc ^ header[at]) & 0xff];
    return crc;
}

/* IP's own checksum. */
static __attribute__((noinline)) u32 checksum_of(const u8 *header, u32 bytes)
{
    u32 sum = 0;
    for (u32 at = 0; at < bytes; at += 2)
        sum += (u32)header[at] << 8 | header[at + 1];
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
}

/* The context remembers headers that were right, as references for the next ones. */
static __attribute__((noinline)) void remember(context *one, const u8 *header, u32 sequence, u32 number)
{
    u32 at = one->next & 3;
    reference *here = &one->references[at];
    for (u32 word = 0; word < 7; word++)
        here->header[word] = ((const u32 *)header)[word];
    here->sequence = sequence;
    here->number = number;
    one->next = at + 1;
    one->sequence = sequence;
    one->offset = (number - sequence) & 0xffff;
    if (one->confidence < 3)
        one->confidence++;
    if (one->mode == 1 && one->confidence == 3)
        one->mode = 2;
}

/* Makes the IP and UDP header again of its compressed form (UO-1: sequence number, bits of the identification, checksum) and the context. */
void decompress(bearer *one, const u8 *packed, u8 *header, u32 payload)
{
    context *state = &one->state_of_headers;
    u32 length = payload + 28;
    u32 kind = packed[0] >> 6, sequence, number, crc;
    switch (kind) {
    case 0:
    case 1:
        sequence = decode_bits(state->sequence, packed[0] >> 3 & 15, 4, 1);
        number = (sequence + state->offset) & 0xffff;
        crc = packed[0] & 7;
        break;
    case 2:
        number = decode_bits(state->sequence + state->offset, packed[0] & 0x3f, 6, 0);
        sequence = decode_bits(state->sequence, packed[1] >> 3, 5, 1);
        crc = packed[1] & 7;
        break;
    default:
        if (packed[0] != 0xfd && packed[0] != 0xfc) {
            one->errors++;
            state->confidence = 0;
            return;
        }
        sequence = packed[1];
        number = (u32)packed[2] | (u32)packed[3] << 8;
        crc = packed[0] & 7;
        break;
    }
    const reference *last = &state->references[(state->next - 1) & 3];
    for (u32 word = 0; word < 7; word++)
        ((u32 *)header)[word] = last->header[word];
    header[2] = length >> 8;
    header[3] = length;
    header[4] = number >> 8;
    header[5] = number;
    header[24] = (payload + 8) >> 8;
    header[25] = payload + 8;
    header[10] = 0;
    header[11] = 0;
    u32 sum = checksum_of(header, 20);
    header[10] = sum >> 8;
    header[11] = sum;
    if ((crc_of(header, 28, 7) & 7) != crc) {
        state->failures++;
        if (state->failures > 3 && state->mode > 0)
            state->mode--;
    }
    remember(state, header, sequence, number);
    one->context = number;
}

/* Which flow a datagram belongs to: filters of addresses, ports and kind of service, and what each has counted. */
u32 classify(bearer *one, const u8 *header, u32 bytes)
{
    u32 from = *(const u32 *)(header + 12), to = *(const u32 *)(header + 16);
    u32 ports = *(const u32 *)(header + 20);
    for (u32 at = 0; at < FILTERS; at++) {
        filter *here = &one->filters[at];
        if ((from & here->mask) != here->address)
            continue;
        if (here->protocol != 0 && here->protocol != header[9])
            continue;
        u32 port = here->local ? ports >> 16 : ports & 0xffff;
        if (port < here->lowest || port > here->highest)
            continue;
        if (here->service != 0 && (header[1] & 0xfc) != here->service)
            continue;
        here->packets++;
        here->octets += bytes;
        return at + 1;
    }
    one->unknown++;
    one->last_address = to;
    return 0;
}

/* The payload of a datagram, by bytes as it lies unaligned, with the checksum of UDP. */
void copy_payload(bearer *one, u8 *to, const u8 *from, u32 bytes)
{
    u32 sum = one->checksum;
    for (u32 at = 0; at + 1 < bytes; at += 2) {
        u32 high = from[at], low = from[at + 1];
        to[at] = high;
        to[at + 1] = low;
        sum += high << 8 | low;
    }
    if (bytes & 1) {
        to[bytes - 1] = from[bytes - 1];
        sum += (u32)from[bytes - 1] << 8;
    }
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    one->checksum = sum;
}

/* Puts a datagram out of the chip through a UART with a fifo of 16 characters, in frames like those of HDLC (RFC 1662): flags, escapes, checksum of 16 bits. */
void put_out(const u8 *datagram, u32 bytes)
{
    u32 fcs = 0xffff, room = 0;
    statistics[8]++;
    for (u32 at = 0; at < bytes + 7; at++) {
        u32 one;
        if (at == 0 || at == bytes + 6)
            one = 0x7e;
        else if (at < 5)
            one = ppp_header[at - 1];
        else if (at < bytes + 4)
            one = datagram[at - 5];
        else
            one = ~fcs >> (at == bytes + 4 ? 0 : 8) & 0xff;
        fcs = fcs >> 8 ^ fcs_table[(fcs ^ one) & 0xff];
        if (room < 2) {
            while (uart[1] & 0x20)
                ;
            room = 16;
        }
        if ((one == 0x7e && at != 0 && at != bytes + 6) || one == 0x7d) {
            uart[0] = 0x7d;
            one ^= 0x20;
            room--;
        }
        uart[0] = one;
        room--;
    }
    statistics[9] += bytes;
}

/* The sending core: the frame into shared memory, and the entry into the ring. Returns whether there was room. */
u32 put_entry(u32 destination, u32 *place, const u32 *frame, u32 bytes)
{
    ring *one = shared_ring;
    u32 tail = one->tail;
    u32 next = tail + 1 == one->size ? 0 : tail + 1;
    if (next == one->head) {
        one->lost++;
        return 0;
    }
    copy_frame(place, frame, bytes);
    one->entries[tail].destination = destination;
    one->entries[tail].data = (u8 *)place;
    one->tail = next;
    return 1;
}

/* Rings the other core. */
void ring_other(u32 channel)
{
    pe_controller[8] = 1u << channel;
}
