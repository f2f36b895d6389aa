/* Statistics of sorted samples: once by a merge sort that moves numbers, once by the C library's qsort, which moves
 * bytes and calls a comparison through a pointer.
 */
#include "program.h"
#include <stdlib.h>
#include <string.h>

static void merge_sort(int n, double *x, double *scratch) {
    if (n < 2)
        return;
    int half = n / 2;
    merge_sort(half, x, scratch);
    merge_sort(n - half, x + half, scratch);
    memcpy(scratch, x, sizeof(double) * n);
    for (int i = 0, j = half, out = 0; out < n; out++)
        x[out] = j == n || (i < half && scratch[i] <= scratch[j]) ? scratch[i++] : scratch[j++];
}

/* Mean of what is left when the smallest and the largest `trim` of n samples are gone. */
EXPORT(trimmed_mean)
double trimmed_mean(int n, const double *samples, int trim) {
    double *sorted = malloc(sizeof(double) * 2 * n);
    memcpy(sorted, samples, sizeof(double) * n);
    merge_sort(n, sorted, sorted + n);
    double sum = 0;
    for (int i = trim; i < n - trim; i++)
        sum += sorted[i];
    free(sorted);
    return sum / (n - 2 * trim);
}

typedef struct {
    double value;
    double weight;
    int index;
} Sample;

static int by_value(const void *a, const void *b) {
    const Sample *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->index - y->index;
}

/* The part of the weighted mean that the smallest samples contribute, up to a share of the weight: how much of all
 * income the poorest have (a point of the Lorenz curve). The sample at the limit counts in part.
 */
EXPORT(lorenz)
double lorenz(int n, const double *values, const double *weights, double share) {
    Sample *samples = malloc(sizeof(Sample) * n);
    double all = 0, everything = 0;
    for (int i = 0; i < n; i++) {
        samples[i] = (Sample){values[i], weights[i], i};
        all += weights[i];
        everything += weights[i] * values[i];
    }
    qsort(samples, n, sizeof(Sample), by_value);
    double left = share * all, sum = 0;
    for (int i = 0; i < n && left > 0; i++) {
        double taken = samples[i].weight < left ? samples[i].weight : left;
        sum += taken * samples[i].value;
        left -= taken;
    }
    free(samples);
    return sum / everything;
}
