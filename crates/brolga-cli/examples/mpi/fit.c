/* A model is fitted by several processes: each has a part of the measurements and the gradient of
   its part, and the parts are added up. */
#include <mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "fit.h"

enum { ALL = 24 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double t[ALL], y[ALL], p[2] = {1.0, 0.1};
    int64_t n = 0, bytes = 256;
    for (int i = rank; i < ALL; i += size, n++) {
        t[n] = 0.125 * i;
        y[n] = 3.0 * exp(-0.75 * t[n]);
    }
    void *workspace = malloc(bytes);
    double sums[3];
    for (int step = 0; step < 4000; step++) {
        struct loss_gradient_results r;
        double shadow[2] = {0.0, 0.0};
        while (loss_gradient(p, shadow, t, y, n, 1.0, workspace, bytes, &r), r.status != 0) {
            workspace = realloc(workspace, bytes *= 2);
            shadow[0] = shadow[1] = 0.0;
        }
        double own[3] = {shadow[0], shadow[1], r.value0};
        MPI_Allreduce(own, sums, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < 2; i++) p[i] -= 0.02 * sums[i];
    }
    if (rank == 0) printf("%d processes: loss %.6f at %.4f, %.4f\n", size, sums[2], p[0], p[1]);
    free(workspace);
    MPI_Finalize();
    return 0;
}
