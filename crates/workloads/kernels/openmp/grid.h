/* What SP, BT and LU share: a grid of 102^3 points with five values each, and the right-hand side. */
#ifndef TANADA_GRID_H
#define TANADA_GRID_H

#include "region.h"

enum { N = 102, M = 5 };

typedef double point[M];

static point *u, *rhs, *forcing;
static double *rho, *speed, *square;
#define PLACE(k, j, i) (((long)(k) * N + (j)) * N + (i))

static void grid_make(void) {
    u = region_array(sizeof(point) * N * N * N);
    rhs = region_array(sizeof(point) * N * N * N);
    forcing = region_array(sizeof(point) * N * N * N);
    rho = region_array(sizeof(double) * N * N * N);
    speed = region_array(sizeof(double) * N * N * N);
    square = region_array(sizeof(double) * N * N * N);
    for (int k = 0; k < 14; k++)
        for (int j = 0; j < N; j++)
            for (int i = 0; i < N; i++)
                for (int m = 0; m < M; m++)
                    u[PLACE(k, j, i)][m] = 1.0 + 0.01 * m + 1e-4 * (i + j + k);
}

/* Reciprocals and kinetic energy: a unit is a plane k. */
static void grid_auxiliary(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int k = from; k < to; k++)
        for (int j = 0; j < N; j++)
            for (int i = 0; i < N; i++) {
                long at = PLACE(k, j, i);
                double inverse = 1.0 / (u[at][0] + 1.0);
                rho[at] = inverse;
                square[at] = 0.5 * (u[at][1] * u[at][1] + u[at][2] * u[at][2] + u[at][3] * u[at][3]) * inverse;
                speed[at] = sqrt(0.56 * inverse * (u[at][4] + square[at] + 1.0));
                for (int m = 0; m < M; m++)
                    rhs[at][m] = forcing[at][m];
            }
}

/* Fluxes and dissipation along the direction whose neighbours lie `step` points away: a unit is a plane k. */
static inline void grid_flux(int k, long step) {
    for (int j = 1; j < N - 1; j++)
        for (int i = 1; i < N - 1; i++) {
            long at = PLACE(k, j, i), up = at + step, down = at - step;
            double vu = u[up][1] * rho[up], vd = u[down][1] * rho[down];
            for (int m = 0; m < M; m++)
                rhs[at][m] += 0.1 * (u[up][m] - 2.0 * u[at][m] + u[down][m]) - 0.2 * (u[up][m] * vu - u[down][m] * vd)
                              - 0.01 * (u[at + 2 * step][m] - 4.0 * u[up][m] + 6.0 * u[at][m] - 4.0 * u[down][m]
                                        + u[at - 2 * step][m]);
            rhs[at][4] += 0.3 * (square[up] - square[down]);
        }
}

static void grid_rhs(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int k = from + 2; k < to + 2; k++) {
        grid_flux(k, 1);
        grid_flux(k, N);
        grid_flux(k, (long)N * N);
    }
}

static void grid_add(int from, int to) {
#pragma omp parallel for schedule(static)
    for (int k = from; k < to; k++)
        for (int j = 1; j < N - 1; j++)
            for (int i = 1; i < N - 1; i++)
                for (int m = 0; m < M; m++)
                    u[PLACE(k, j, i)][m] += rhs[PLACE(k, j, i)][m];
}

#endif
