/* Cisco's decoder, as the system's package builds it: with its assembly. */
#include "peer.h"

#include <stdlib.h>
#include <string.h>
#include <wels/codec_api.h>

void peer_open(uint32_t workers) { (void)workers; }

void peer_close(void) {}

/* Where the next start code (00 00 01) begins, from `at` on; `length` where there is none. */
static size_t start_code(const uint8_t *stream, size_t length, size_t at) {
    while (at + 3 <= length) {
        const uint8_t *one = memchr(stream + at + 2, 1, length - at - 2);
        if (one == NULL)
            return length;
        if (one[-1] == 0 && one[-2] == 0)
            return (size_t)(one - stream) - 2;
        at = (size_t)(one - stream) - 1;
    }
    return length;
}

static int shown(const SBufferInfo *info, uint8_t *const planes[3], peer_frame frame, void *context) {
    if (info->iBufferStatus != 1)
        return 0;
    const SSysMEMBuffer *memory = &info->UsrData.sSystemBuffer;
    const uint8_t *const of_frame[3] = {planes[0], planes[1], planes[2]};
    const size_t strides[2] = {(size_t)memory->iStride[0], (size_t)memory->iStride[1]};
    if (frame != NULL)
        frame(context, of_frame, strides, (size_t)memory->iWidth, (size_t)memory->iHeight);
    return 1;
}

uint64_t peer_decode(const uint8_t *stream, size_t length, peer_frame frame, void *context) {
    ISVCDecoder *decoder = NULL;
    SDecodingParam parameters;
    memset(&parameters, 0, sizeof parameters);
    parameters.eEcActiveIdc = ERROR_CON_DISABLE;
    parameters.sVideoProperty.eVideoBsType = VIDEO_BITSTREAM_AVC;
    if (WelsCreateDecoder(&decoder) != 0 || (*decoder)->Initialize(decoder, &parameters) != 0)
        return 0;
    uint64_t frames = 0;
    uint8_t *planes[3];
    SBufferInfo info;
    for (size_t at = start_code(stream, length, 0); at < length;) {
        size_t next = start_code(stream, length, at + 3);
        memset(&info, 0, sizeof info);
        memset(planes, 0, sizeof planes);
        (*decoder)->DecodeFrameNoDelay(decoder, stream + at, (int)(next - at), planes, &info);
        frames += (uint64_t)shown(&info, planes, frame, context);
        at = next;
    }
    for (;;) {
        memset(&info, 0, sizeof info);
        memset(planes, 0, sizeof planes);
        (*decoder)->FlushFrame(decoder, planes, &info);
        if (!shown(&info, planes, frame, context))
            break;
        frames++;
    }
    (*decoder)->Uninitialize(decoder);
    WelsDestroyDecoder(decoder);
    return frames;
}
