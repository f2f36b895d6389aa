/* y = A x for a row-major matrix, and y = A^T (A x) which reads what it has just written. */
#include "real.h"

EXPORT void matvec(int rows, int cols, const real *a, const real *x, real *y) {
    for (int i = 0; i < rows; i++) {
        real sum = 0;
        for (int j = 0; j < cols; j++)
            sum += a[i * cols + j] * x[j];
        y[i] = sum;
    }
}

EXPORT real normal_matvec(int rows, int cols, const real *a, real *x, real *y) {
    matvec(rows, cols, a, x, y);
    for (int j = 0; j < cols; j++)
        x[j] = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++)
            x[j] += a[i * cols + j] * y[i];
    real norm = 0;
    for (int j = 0; j < cols; j++)
        norm += x[j] * x[j];
    return norm;
}
