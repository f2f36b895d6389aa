/* Adjoint of gmm_objective.
 *
 * A point is done with before the next one begins, since the likelihood is a sum over points. Stored for one point:
 * differences to the means and their products with the factors, for all components (2 k d numbers), and the exponentials
 * of the terms, which become weights. Nothing is computed twice. The normalisation depends on gamma alone, by d log gamma.
 */
#include "adjoint.h"

#include "../gmm.c"

/* Of y = Q x. */
static void multiply_adjoint(int d, const double *diagonal, const double *below, const double *x, const double *y_bar,
                             double *diagonal_bar, double *below_bar, double *x_bar) {
    for (int column = 0; column < d; column++) {
        double here = x[column], sum = diagonal[column] * y_bar[column];
        diagonal_bar[column] += y_bar[column] * here;
        for (int row = column + 1; row < d; row++) {
            *below_bar++ += y_bar[row] * here;
            sum += *below++ * y_bar[row];
        }
        x_bar[column] = sum;
    }
}

/* Derivatives of log_sum_exp(x) by x, times a number, instead of x. */
static void soft_max(int n, double *x, double times) {
    double top = x[0];
    for (int i = 1; i < n; i++)
        if (x[i] > top)
            top = x[i];
    double sum = 0;
    for (int i = 0; i < n; i++) {
        x[i] = exp(x[i] - top);
        sum += x[i];
    }
    times /= sum;
    for (int i = 0; i < n; i++)
        x[i] *= times;
}

ADJOINT(gmm_objective_adjoint)
void gmm_objective_adjoint(int d, int k, int n, const double *alphas, const double *means, const double *factors,
                           const double *points, double gamma, int m, double *alphas_bar, double *means_bar,
                           double *factors_bar, double *points_bar, double *gamma_bar, double seed) {
    int stride = d * (d + 1) / 2;
    double *diagonals = malloc(sizeof(double) * k * d);
    double *diagonals_bar = calloc(k * d, sizeof(double));
    double *logdets = malloc(sizeof(double) * k);
    double *logdets_bar = calloc(k, sizeof(double));
    double *centred = malloc(sizeof(double) * k * d);
    double *centred_bar = malloc(sizeof(double) * d);
    double *scaled = malloc(sizeof(double) * k * d);
    double *terms = malloc(sizeof(double) * k);
    for (int c = 0; c < k; c++) {
        logdets[c] = 0;
        for (int i = 0; i < d; i++) {
            logdets[c] += factors[c * stride + i];
            diagonals[c * d + i] = exp(factors[c * stride + i]);
        }
    }
    for (int p = 0; p < n; p++) {
        for (int c = 0; c < k; c++) {
            for (int i = 0; i < d; i++)
                centred[c * d + i] = points[p * d + i] - means[c * d + i];
            multiply(d, diagonals + c * d, factors + c * stride + d, centred + c * d, scaled + c * d);
            terms[c] = alphas[c] + logdets[c] - 0.5 * square(d, scaled + c * d);
        }
        soft_max(k, terms, seed);
        for (int c = 0; c < k; c++) {
            alphas_bar[c] += terms[c];
            logdets_bar[c] += terms[c];
            for (int i = 0; i < d; i++)
                scaled[c * d + i] *= -terms[c];
            multiply_adjoint(d, diagonals + c * d, factors + c * stride + d, centred + c * d, scaled + c * d,
                             diagonals_bar + c * d, factors_bar + c * stride + d, centred_bar);
            for (int i = 0; i < d; i++) {
                points_bar[p * d + i] += centred_bar[i];
                means_bar[c * d + i] -= centred_bar[i];
            }
        }
    }
    for (int c = 0; c < k; c++)
        terms[c] = alphas[c];
    soft_max(k, terms, -n * seed);
    int freedom = d + m + 1;
    for (int c = 0; c < k; c++) {
        const double *diagonal = diagonals + c * d, *below = factors + c * stride + d;
        double frobenius = square(d, diagonal) + square(stride - d, below);
        *gamma_bar += seed * (gamma * frobenius - freedom * d / gamma);
        alphas_bar[c] += terms[c];
        logdets_bar[c] -= m * seed;
        double pull = seed * gamma * gamma;
        for (int i = 0; i < stride - d; i++)
            factors_bar[c * stride + d + i] += pull * below[i];
        for (int i = 0; i < d; i++)
            factors_bar[c * stride + i] +=
                (diagonals_bar[c * d + i] + pull * diagonal[i]) * diagonal[i] + logdets_bar[c];
    }
    free(terms);
    free(scaled);
    free(centred_bar);
    free(centred);
    free(logdets_bar);
    free(logdets);
    free(diagonals_bar);
    free(diagonals);
}
