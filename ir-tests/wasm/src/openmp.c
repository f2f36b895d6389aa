/* Ordinary programs with OpenMP. Without -fopenmp they are the same programs on one thread. */
#include "program.h"
#ifdef _OPENMP
int omp_get_thread_num(void);
int omp_get_num_threads(void);
#else
static int omp_get_thread_num(void) { return 0; }
static int omp_get_num_threads(void) { return 1; }
#endif

/* y_i = sin(w_i . x), and the sum of their squares. */
EXPORT(layer) double layer(int n, int m, const double *w, const double *x, double *y) {
    double sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (int i = 0; i < n; i++) {
        double s = 0;
        for (int j = 0; j < m; j++) s += w[i * m + j] * x[j];
        y[i] = sin(s);
        sum += y[i] * y[i];
    }
    return sum;
}

/* Chunks go round; a product and a sum at once, of numbers of 64 bits. */
EXPORT(chunks) double chunks(int n, const double *x) {
    double sum = 0, product = 1;
#pragma omp parallel for schedule(static, 2) reduction(+ : sum) reduction(* : product)
    for (long long i = n - 1; i >= 0; i--) {
        sum += x[i] * x[i];
        product *= x[i];
    }
    return sum * product;
}

/* What the last iteration has computed, and what each thread has begun with. */
EXPORT(last) double last(int n, const double *x, double *y) {
    double scale = x[0], end = 0;
#pragma omp parallel for firstprivate(scale) lastprivate(end)
    for (unsigned i = 0; i < (unsigned)n; i++) {
        end = scale * x[i];
        y[i] = end * end;
    }
    double sum = 0;
    for (int i = 0; i < n; i++) sum += y[i];
    return sum + end;
}

/* Each thread finds its own part. */
EXPORT(threads) double threads(int n, const double *x) {
    double sum = 0;
#pragma omp parallel num_threads(5) reduction(+ : sum)
    {
        int team = omp_get_num_threads();
        for (int i = omp_get_thread_num(); i < n; i += team) sum += x[i] * x[i] * (i + 1);
    }
    return sum;
}

/* A region within a region: its team has one thread. */
EXPORT(within) double within(int n, int m, const double *x, double *y) {
#pragma omp parallel for
    for (int i = 0; i < n; i++) {
        double s = 0;
#pragma omp parallel for reduction(+ : s)
        for (int j = 0; j < m; j++) s += x[i * m + j] * x[j];
        y[i] = s;
    }
    double sum = 0;
    for (int i = 0; i < n; i++) sum += y[i] * y[i];
    return sum;
}
