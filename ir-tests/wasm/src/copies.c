/* Floats that move in pieces: by bytes, by halves, in words of records with floats of both sizes. Programs do that which sort whatever
 * there is, or write files in a byte order of their own.
 *
 * A compiler makes of it what it likes: -O0 leaves the loops as they are, -O2 takes words apart by shifts.
 */
#include <stdlib.h>
#include <string.h>

#include "program.h"

/* Half of a double. */
typedef unsigned __attribute__((may_alias)) Word;

typedef struct {
    double weight;
    float left, right;
    short place;
    char mark[3];
} Item;

/* Two blocks change places. */
static void exchange(void *a, void *b, size_t size) {
    unsigned char *p = a, *q = b;
    while (size--) {
        unsigned char t = *p;
        *p++ = *q;
        *q++ = t;
    }
}

static int by_number(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int by_weight(const void *a, const void *b) {
    double x = ((const Item *)a)->weight, y = ((const Item *)b)->weight;
    return (x < y) - (x > y);
}

/* Sorts anything, slowly. */
static void sort(void *base, size_t count, size_t size, int (*order)(const void *, const void *)) {
    char *at = base;
    for (size_t end = count; end > 1; end--)
        for (size_t i = 0; i + 1 < end; i++)
            if (order(at + i * size, at + (i + 1) * size) > 0) exchange(at + i * size, at + (i + 1) * size, size);
}

/* The sum of (i + 1) x_i^2 over the numbers in order. */
EXPORT(ranked) double ranked(int n, const double *x) {
    double *sorted = malloc(n * sizeof *sorted), sum = 0;
    for (int i = 0; i < n; i++) sorted[i] = x[i];
    sort(sorted, n, sizeof *sorted, by_number);
    for (int i = 0; i < n; i++) sum += (i + 1) * sorted[i] * sorted[i];
    free(sorted);
    return sum;
}

/* Records, the heaviest first, and then the other way round: the sum of (i + 1) weight left + right place. */
EXPORT(weighed) double weighed(int n, const double *x) {
    Item *items = malloc(n * sizeof *items);
    for (int i = 0; i < n; i++) {
        items[i] = (Item){.weight = x[i], .left = (float)(2 * x[i]), .right = (float)(x[i] / 4), .place = i, .mark = "ab"};
    }
    sort(items, n, sizeof *items, by_weight);
    for (int i = 0; i < n / 2; i++) {
        Item t = items[i];
        items[i] = items[n - 1 - i];
        items[n - 1 - i] = t;
    }
    double sum = 0;
    for (int i = 0; i < n; i++) {
        Item one;
        memcpy(&one, &items[i], sizeof one);
        sum += (i + 1) * one.weight * items[i].left + one.right * one.place + items[i].weight * (one.mark[0] == 'b');
    }
    free(items);
    return sum;
}

/* Written behind a byte each, and read again: the sum of the cubes. */
EXPORT(packed) double packed(int n, const double *x) {
    char *file = malloc(n * 9 + 1), *end = file;
    for (int i = 0; i < n; i++) {
        *end++ = 'x';
        memcpy(end, &x[i], sizeof x[i]);
        end += sizeof x[i];
    }
    double sum = 0;
    for (const char *at = file; at < end; at += 9) {
        double number;
        memcpy(&number, at + 1, sizeof number);
        sum += (*at == 'x') * number * number * number;
    }
    free(file);
    return sum;
}

static void write_reversed(unsigned char *to, const double *number) {
    const unsigned char *from = (const unsigned char *)number;
    for (int i = 0; i < 8; i++) to[i] = from[7 - i];
}

static double read_reversed(const unsigned char *from) {
    double number;
    for (int i = 0; i < 8; i++) ((unsigned char *)&number)[7 - i] = from[i];
    return number;
}

/* The most significant byte first: the sum of i x_i^2. */
EXPORT(mirrored) double mirrored(int n, const double *x) {
    unsigned char *file = malloc(8 * n + 1);
    double sum = 0;
    for (int i = 0; i < n; i++) write_reversed(file + 8 * i, x + i);
    for (int i = 0; i < n; i++) sum += i * read_reversed(file + 8 * i) * x[i];
    free(file);
    return sum;
}

/* Copied by words of four bytes, and both used: the sum of the squares. */
EXPORT(copied) double copied(int n, const double *x) {
    double *copy = malloc(n * sizeof *copy + 1), sum = 0;
    for (int i = 0; i < 2 * n; i++) ((Word *)(void *)copy)[i] = ((const Word *)(const void *)x)[i];
    for (int i = 0; i < n; i++) sum += copy[i] * x[i];
    free(copy);
    return sum;
}

/* Rows of an image whose numbers are singles made of doubles: every other row is copied from the
 * other end, those between are scaled, and the first row is the second at last. */
EXPORT(rows) double rows(int n, const double *x) {
    enum { ROWS = 4 };
    float *from = malloc(ROWS * n * sizeof *from), *to = malloc(ROWS * n * sizeof *to);
    for (int i = 0; i < ROWS * n; i++) from[i] = (float)x[i % n] * (1 + i / n);
    for (int row = 0; row < ROWS; row++) {
        if (row & 1) {
            memcpy(to + row * n, from + (ROWS - 1 - row) * n, n * sizeof *to);
        } else {
            for (int i = 0; i < n; i++) to[row * n + i] = 2 * from[row * n + i];
        }
    }
    memmove(to, to + n, n * sizeof *to);
    double sum = 0;
    for (int i = 0; i < ROWS * n; i++) sum += to[i] * to[i] * 0.25;
    free(from);
    free(to);
    return sum;
}
