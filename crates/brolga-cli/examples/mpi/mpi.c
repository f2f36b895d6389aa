/* What the CLIF functions call, over MPI; and the adjoints that `mpi.rules` names. A shadow is null
   where a process does not ask for a derivative: the others still wait for its message. */
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static double *message(int64_t n) {
    double *m = calloc(n, sizeof *m);
    if (!m) MPI_Abort(MPI_COMM_WORLD, 1);
    return m;
}

/* In place. It is its own adjoint, on the shadow. */
void mpi_sum(double *x, int64_t n) {
    double *zeros = x ? NULL : message(n);
    MPI_Allreduce(MPI_IN_PLACE, x ? x : zeros, (int)n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    free(zeros);
}

void mpi_sum__tangent(double *x, double *dx, int64_t n) {
    mpi_sum(x, n);
    mpi_sum(dx, n);
}

void mpi_send(const double *x, int64_t n, int64_t to) {
    MPI_Send(x, (int)n, MPI_DOUBLE, (int)to, 0, MPI_COMM_WORLD);
}

void mpi_receive(double *x, int64_t n, int64_t from) {
    MPI_Recv(x, (int)n, MPI_DOUBLE, (int)from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* The cotangents of what was sent come back, and are added. */
void mpi_send__adjoint(double *dx, int64_t n, int64_t to) {
    double *back = message(n);
    MPI_Recv(back, (int)n, MPI_DOUBLE, (int)to, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int64_t i = 0; dx && i < n; i++) dx[i] += back[i];
    free(back);
}

/* Those of what was received go back, and none are left. */
void mpi_receive__adjoint(double *dx, int64_t n, int64_t from) {
    double *zeros = dx ? NULL : message(n);
    MPI_Send(dx ? dx : zeros, (int)n, MPI_DOUBLE, (int)from, 1, MPI_COMM_WORLD);
    if (dx) memset(dx, 0, n * sizeof *dx);
    free(zeros);
}
