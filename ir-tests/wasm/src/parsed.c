/* Integers read from a text, in records beside floats of both sizes. */
#include "program.h"

#include <stdlib.h>

typedef struct {
    float weight;
    int tag;
    double value;
} Entry;

static const char *text = "12 7 3 44 5 61 7 8 9 10";

__attribute__((noinline)) static int next_number(const char **at) {
    while (**at == ' ') ++*at;
    int found = 0;
    while (**at >= '0' && **at <= '9') found = found * 10 + (*(*at)++ - '0');
    return found;
}

static Entry *read_all(int n, const double *x) {
    Entry *all = calloc(n, sizeof(Entry));
    const char *at = text;
    for (int i = 0; i < n; i++) {
        all[i].weight = (float)(x[i] * x[i]);
        all[i].tag = next_number(&at);
        all[i].value = x[i] * 3;
    }
    return all;
}

static double sum_of(Entry *all, int n, int mask) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        if ((all[i].tag & mask) == mask) sum += (i + 1) * (all[i].weight * all[i].value);
    free(all);
    return sum;
}

static int by_tag(const void *a, const void *b) {
    return ((const Entry *)a)->tag - ((const Entry *)b)->tag;
}

EXPORT(tagged) double tagged(int n, const double *x) { return sum_of(read_all(n, x), n, 0); }

EXPORT(odd_tags) double odd_tags(int n, const double *x) { return sum_of(read_all(n, x), n, 1); }

EXPORT(sorted_by_tag) double sorted_by_tag(int n, const double *x) {
    Entry *all = read_all(n, x);
    qsort(all, n, sizeof(Entry), by_tag);
    return sum_of(all, n, 0);
}
