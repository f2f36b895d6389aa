/* Log-likelihood of a Gaussian mixture with the precision factor of each component stored as the logarithms of its diagonal
 * followed by its strictly lower triangle, and a penalty that keeps those factors small. */
#include "real.h"

enum { MAX_K = 4, MAX_D = 4 };

NOINLINE real log_sum_exp(int n, const real *x) {
    real top = x[0];
    for (int i = 1; i < n; i++)
        if (x[i] > top)
            top = x[i];
    real sum = 0;
    for (int i = 0; i < n; i++)
        sum += R(exp)(x[i] - top);
    return R(log)(sum) + top;
}

NOINLINE real squared_distance(int d, const real *factor, const real *x, const real *mean) {
    real centred[MAX_D];
    for (int i = 0; i < d; i++)
        centred[i] = x[i] - mean[i];
    const real *lower = factor + d;
    real total = 0;
    for (int i = 0; i < d; i++) {
        real row = R(exp)(factor[i]) * centred[i];
        for (int j = 0; j < i; j++)
            row += *lower++ * centred[j];
        total += row * row;
    }
    return total;
}

EXPORT real gmm(int d, int k, int n, const real *alpha, const real *means, const real *factors, const real *x, real weight) {
    int stride = d * (d + 1) / 2;
    real terms[MAX_K];
    real total = 0;
    for (int i = 0; i < n; i++) {
        for (int c = 0; c < k; c++) {
            const real *factor = factors + c * stride;
            real logdet = 0;
            for (int j = 0; j < d; j++)
                logdet += factor[j];
            terms[c] = alpha[c] + logdet - squared_distance(d, factor, x + i * d, means + c * d) / 2;
        }
        total += log_sum_exp(k, terms);
    }
    real penalty = 0;
    for (int c = 0; c < k; c++)
        for (int j = 0; j < stride; j++) {
            real entry = factors[c * stride + j];
            penalty += j < d ? R(exp)(2 * entry) : entry * entry;
        }
    return total - n * log_sum_exp(k, alpha) - weight * weight * penalty / 2;
}
