// The graph of the Cholesky factorisation, for C++ peers whose nodes and edges are made by hand.
#ifndef PEERS_CHOLESKY_H
#define PEERS_CHOLESKY_H

#include "peer.h"

#include <cstddef>
#include <vector>

// Calls `make(i, j, k)` for every step, in the order of a program without tasks, which returns a node (a pointer or handle);
// then `edge(before, node)` for each step that it waits for.
template <typename Node, typename Make, typename Edge> void cholesky_graph(Make make, Edge edge) {
    auto index = [](size_t i, size_t j) { return i * (i + 1) / 2 + j; };
    // The last step of each tile so far.
    std::vector<Node> last(index(peers_tiles, 0));
    auto step = [&](uint32_t i, uint32_t j, uint32_t k) {
        Node node = make(i, j, k);
        if (k > 0)
            edge(last[index(i, j)], node);
        if (k < i)
            edge(last[index(j == k ? k : i, k)], node);
        if (k < j && j < i)
            edge(last[index(j, k)], node);
        last[index(i, j)] = node;
    };
    for (uint32_t k = 0; k < peers_tiles; k++) {
        for (uint32_t i = k; i < peers_tiles; i++)
            step(i, k, k);
        for (uint32_t i = k + 1; i < peers_tiles; i++)
            for (uint32_t j = k + 1; j <= i; j++)
                step(i, j, k);
    }
}

#endif
