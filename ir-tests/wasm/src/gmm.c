/* Log-likelihood of a Gaussian mixture with a Wishart prior, as the AD benchmark of Srajer, Kukelova and Fitzgibbon
 * ("A benchmark of selected algorithmic differentiation tools on some problems in computer vision and machine
 * learning", 2018) defines it. The inverse covariance of a component is Q' Q, with Q lower triangular: its diagonal is
 * stored as logarithms, then the entries below it column by column. Scratch arrays come from malloc.
 */
#include "program.h"
#include <stdlib.h>

static double log_sum_exp(int n, const double *x) {
    double top = x[0];
    for (int i = 1; i < n; i++)
        if (x[i] > top)
            top = x[i];
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += exp(x[i] - top);
    return top + log(sum);
}

static double log_gamma_of_dimension(double a, int d) {
    double sum = 0.25 * d * (d - 1) * log(PI);
    for (int j = 1; j <= d; j++)
        sum += lgamma(a + 0.5 * (1 - j));
    return sum;
}

/* y = Q x. */
static void multiply(int d, const double *diagonal, const double *below, const double *x, double *y) {
    for (int i = 0; i < d; i++)
        y[i] = diagonal[i] * x[i];
    for (int column = 0; column < d; column++)
        for (int row = column + 1; row < d; row++)
            y[row] += *below++ * x[column];
}

static double square(int n, const double *x) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sum;
}

/* d: dimension, k: components, n: points. alphas[k], means[k][d], factors[k][d(d+1)/2], points[n][d]. */
EXPORT(gmm_objective)
double gmm_objective(int d, int k, int n, const double *alphas, const double *means, const double *factors,
                     const double *points, double gamma, int m) {
    int stride = d * (d + 1) / 2;
    double *diagonals = malloc(sizeof(double) * k * d);
    double *logdets = malloc(sizeof(double) * k);
    double *centred = malloc(sizeof(double) * d);
    double *scaled = malloc(sizeof(double) * d);
    double *terms = malloc(sizeof(double) * k);
    for (int c = 0; c < k; c++) {
        logdets[c] = 0;
        for (int i = 0; i < d; i++) {
            logdets[c] += factors[c * stride + i];
            diagonals[c * d + i] = exp(factors[c * stride + i]);
        }
    }
    double likelihood = 0;
    for (int p = 0; p < n; p++) {
        for (int c = 0; c < k; c++) {
            for (int i = 0; i < d; i++)
                centred[i] = points[p * d + i] - means[c * d + i];
            multiply(d, diagonals + c * d, factors + c * stride + d, centred, scaled);
            terms[c] = alphas[c] + logdets[c] - 0.5 * square(d, scaled);
        }
        likelihood += log_sum_exp(k, terms);
    }
    int freedom = d + m + 1;
    double normal = freedom * d * (log(gamma) - 0.5 * log(2)) - log_gamma_of_dimension(0.5 * freedom, d);
    double prior = 0;
    for (int c = 0; c < k; c++) {
        double frobenius = square(d, diagonals + c * d) + square(stride - d, factors + c * stride + d);
        prior += 0.5 * gamma * gamma * frobenius - m * logdets[c] - normal;
    }
    free(terms);
    free(scaled);
    free(centred);
    free(logdets);
    free(diagonals);
    return -0.5 * n * d * log(2 * PI) + likelihood - n * log_sum_exp(k, alphas) + prior;
}
