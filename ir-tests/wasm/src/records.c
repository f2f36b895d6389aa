/* Doubles at 4 modulo 8: packed records, a header before numbers.
 *
 * Records are moved by whatever the compiler takes for it: words that hold halves of two doubles at -O0, blocks, the doubles themselves.
 */
#include <stdlib.h>
#include <string.h>

#include "program.h"

typedef struct __attribute__((packed)) {
    int tag;
    double at[3];
} Point;

/* Of a size that is a multiple of eight. */
typedef struct __attribute__((packed)) {
    int first;
    double at[3];
    int last;
} Framed;

static void fill(Point *p, int n, const double *x) {
    for (int i = 0; i < n; i++) {
        p[i].tag = i;
        for (int j = 0; j < 3; j++) p[i].at[j] = x[i] * (j + 1);
    }
}

static double moment(const Point *p, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < 3; j++) sum += p[i].at[j] * p[i].at[j] * (i + 1);
    return sum;
}

/* A copy of one record, and the record itself: sum of (j + 1) x_j^2 and of x_j^4. */
EXPORT(doubled) double doubled(const double *x) {
    Framed a, b;
    a.first = 1;
    a.last = 2;
    for (int j = 0; j < 3; j++) a.at[j] = x[j] * x[j];
    b = a;
    double sum = 0;
    for (int j = 0; j < 3; j++) sum += b.at[j] * (j + 1) + a.at[j] * a.at[j];
    return sum;
}

/* Records one place on, the first last. */
EXPORT(rotated) double rotated(int n, const double *x) {
    Point *p = malloc(n * sizeof *p);
    fill(p, n, x);
    for (int i = 0; i + 1 < n; i++) {
        Point t = p[i];
        p[i] = p[i + 1];
        p[i + 1] = t;
    }
    double sum = moment(p, n);
    free(p);
    return sum;
}

/* A block of records, copied; both count. */
EXPORT(saved) double saved(int n, const double *x) {
    Framed *p = malloc(n * sizeof *p), *q = malloc(n * sizeof *q);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < 3; j++) p[i].at[j] = x[i] * (j + 1);
    memcpy(q, p, n * sizeof *p);
    double sum = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < 3; j++) sum += q[i].at[j] * q[i].at[j] * (i + 1) + p[i].at[j] * x[i];
    free(p);
    free(q);
    return sum;
}

/* Records in two places that are written again and again. */
EXPORT(reused) double reused(int n, const double *x) {
    Point a, b;
    double sum = 0;
    a.tag = n;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < 3; j++) a.at[j] = x[i] * (j + 1) + sum;
        b = a;
        for (int j = 0; j < 3; j++) sum += b.at[j] * b.at[j] * 0.1;
        a.at[1] = b.at[0];
        b = a;
        sum += b.at[1];
    }
    return sum;
}

/* Numbers behind a header of four bytes, moved over each other. */
EXPORT(shifted) double shifted(int n, const double *x) {
    char *block = malloc(8 * n + 4);
    double sum = 0, y;
    for (int i = 0; i < n; i++) {
        y = x[i] * x[i];
        memcpy(block + 4 + 8 * i, &y, 8);
    }
    memmove(block + 12, block + 4, 8 * (n - 1));
    for (int i = 0; i < n; i++) {
        memcpy(&y, block + 4 + 8 * i, 8);
        sum += y * (i + 1);
    }
    free(block);
    return sum;
}

#ifdef SINGLES
/* A module that has floats of the other size as well: sum of x. */
EXPORT(single) float single(int n, const float *x) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    return sum;
}
#endif
