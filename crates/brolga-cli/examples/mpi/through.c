/* Gradients of functions that talk to other processes, beside what they are by formula. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>

#include "through.h"

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    /* Process r has w = 0.5 + r and x = 1 - 0.25 r. */
    double w = 0.5 + rank, x = 1.0 - 0.25 * rank, of_w = 0.0, sum = 0.0;
    for (int r = 0; r < size; r++) sum += (0.5 + r) * (1.0 - 0.25 * r);
    double agreed = agree_gradient(&w, &of_w, x, 1.0);
    /* Each of `size` results is sum^2. */
    double worst = fabs(of_w - size * 2.0 * sum * x) + fabs(agreed - sum * sum);

    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    double y = (0.5 + before) * (1.0 - 0.25 * before), next_w = 0.5 + next;
    of_w = 0.0;
    double received = ring_gradient(&w, &of_w, x, next, before, 1.0);
    worst += fabs(received - y * y * y * w);
    worst += fabs(of_w - (y * y * y + 3.0 * w * x * w * x * next_w * x));
    double all = 0.0;
    MPI_Reduce(&worst, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%d processes, largest difference %g\n", size, all);
    MPI_Finalize();
    return all > 1e-9;
}
