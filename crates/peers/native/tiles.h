// The tile graph of a stencil over time steps, for C++ peers: which tile and sweep a task is, and which tasks it waits for.
#ifndef PEERS_TILES_H
#define PEERS_TILES_H

#include "peer.h"

#include <vector>

struct tiles {
    // Keeps the tiles, band by band with `strips` tiles each.
    void keep(const peers_tile *all, size_t count, size_t of_band) {
        tiles.assign(all, all + count);
        strips = of_band;
    }

    void field(float *first, float *second, size_t from_row_to_row) {
        a = first;
        b = second;
        stride = from_row_to_row;
    }

    // Calls `wait` with the tiles whose last sweep must be done before the next of tile `at`: its own and its neighbours'.
    template <typename F> void each_before(size_t at, F wait) const {
        if (at >= strips)
            wait(at - strips);
        if (at % strips > 0)
            wait(at - 1);
        wait(at);
        if (at % strips + 1 < strips)
            wait(at + 1);
        if (at + strips < tiles.size())
            wait(at + strips);
    }

    void sweep(size_t at, uint32_t sweep) const {
        const peers_tile &tile = tiles[at];
        const float *from = sweep % 2 == 0 ? a : b;
        float *to = sweep % 2 == 0 ? b : a;
        for (size_t y = tile.y; y < tile.y + tile.h; y++) {
            const float *here = from + y * stride + tile.x;
            peers_stencil_row(to + y * stride + tile.x, here - stride, here, here + stride, tile.w);
        }
    }

  private:
    std::vector<peers_tile> tiles;
    size_t strips = 1, stride = 0;
    float *a = nullptr, *b = nullptr;
};

#endif
