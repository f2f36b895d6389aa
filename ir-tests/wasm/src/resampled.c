/* Rows of singles in a ring, put together by functions from a table: addresses that are returned,
 * and stored in an array in the frame. `assert` makes the printing of the C library reachable. */
#include "program.h"

#include <assert.h>
#include <stdlib.h>

typedef struct {
    int from, to;
} Range;

typedef struct {
    Range *ranges;
    float *weights;
    int weights_per_row, ready, entries, length;
    void *target;
    int stride;
    const void *source;
    int width, channels;
} Plan;

typedef struct {
    int begin, first, last, start, end;
    float *ring, *out;
} State;

typedef void Mix(float *, const float *, const float **, const float *);

static void of_one(float *to, const float *weights, const float **rows, const float *end) {
    const float *a = rows[0];
    for (float by = weights[0]; a < end; ++to, ++a) *to = a[0] * by;
}

static void of_two(float *to, const float *weights, const float **rows, const float *end) {
    const float *a = rows[0], *b = rows[1];
    float by = weights[0], other = weights[1];
    for (; a < end; ++to, ++a, ++b) {
        float sum = a[0] * by;
        sum += b[0] * other;
        *to = sum;
    }
}

static Mix *mixes[8] = {of_one, of_two};

static float *entry(const Plan *p, const State *s, int i) {
    assert(i < p->entries);
    return (float *)((char *)s->ring + i * p->length);
}

static float *line(const Plan *p, const State *s, int i) {
    return entry(p, s, (s->begin + (i - s->first)) % p->entries);
}

static void row(const Plan *p, State *s, int n, Range range, const float *weights) {
    int k = 0, left = range.to - range.from + 1;
    assert(p->ready && left > 0);
    do {
        const float *rows[8];
        int count = left > 8 ? 8 : left;
        for (int i = 0; i < count; i++) rows[i] = line(p, s, k + i + range.from);
        mixes[count - 1](s->out, weights, rows, rows[0] + p->channels * p->width);
        k += count;
        left -= count;
    } while (left);
    ((float *)((char *)p->target + (size_t)n * p->stride))[0] = s->out[0];
}

static void all_rows(const Plan *p, State *s) {
    const float *weights = p->weights + s->start * p->weights_per_row;
    s->begin = 0;
    s->first = p->ranges[s->start].from;
    s->last = s->first - 1;
    for (int y = s->start; y < s->end; y++) {
        Range range = p->ranges[y];
        assert(range.from >= s->first);
        while (range.to > s->last) {
            assert(s->last - s->first + 1 <= p->entries);
            if (s->last - s->first + 1 == p->entries) {
                s->first++;
                s->begin++;
            }
            float *to = line(p, s, ++s->last);
            to[0] = ((float *)p->source)[s->last];
        }
        row(p, s, y, range, weights);
        weights += p->weights_per_row;
    }
}

EXPORT(resampled) float resampled(const float *x) {
    static Range ranges[3] = {{0, 0}, {0, 1}, {1, 1}};
    static float weights[6] = {1, 0, .5f, .5f, 1, 0};
    float out[3];
    char *block = malloc(4000);
    Plan *p = (Plan *)block;
    State *s = (State *)(block + 1024);
    *p = (Plan){ranges, weights, 2, 1, 2, 16, out, 4, x, 1, 1};
    s->start = 0;
    s->end = 3;
    s->ring = (float *)(block + 2048);
    s->out = (float *)(block + 3000);
    all_rows(p, s);
    free(block);
    return out[0] + 2 * out[1] + 3 * out[2];
}
