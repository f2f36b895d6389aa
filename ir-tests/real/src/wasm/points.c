/* Single precision: a struct of two floats travels as one i64, sums are carried in double precision. */
#include "real.h"

struct point { single x, y; };

EXPORT void reverse_rotate(int n, struct point *to, const struct point *from, single c, single s) {
    for (int i = 0; i < n; i++)
        to[i] = from[n - 1 - i];
    for (int i = 0; i < n; i++) {
        single x = to[i].x;
        to[i].x = c * x - s * to[i].y;
        to[i].y = s * x + c * to[i].y;
    }
}

/* Mean squared distance from the mean, and the length of the last point. */
EXPORT real spread(int n, const struct point *p) {
    real x = 0, y = 0, sum = 0;
    for (int i = 0; i < n; i++) {
        x += p[i].x;
        y += p[i].y;
    }
    x /= n;
    y /= n;
    for (int i = 0; i < n; i++)
        sum += (p[i].x - x) * (p[i].x - x) + (p[i].y - y) * (p[i].y - y);
    struct point last = p[n - 1];
    return sum / n + S(sqrt)(last.x * last.x + last.y * last.y);
}

/* The length of each point, and the largest of them. */
EXPORT single lengths(int n, const struct point *p, single *length) {
    single top = 0;
    for (int i = 0; i < n; i++) {
        real squared = (real)p[i].x * p[i].x + (real)p[i].y * p[i].y;
        length[i] = S(sqrt)((single)squared);
        top = length[i] > top ? length[i] : top;
    }
    return top;
}
