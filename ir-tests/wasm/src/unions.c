/* Doubles taken apart, and put together, by a union of a double and two words, as FreeBSD's library of mathematics does. Without optimisation the words go through memory.
 */
#include "program.h"
#include "taken_apart.h"

/* In two parts: the last digits by themselves. */
EXPORT(split) double split(double x) {
    Words u;
    u.number = x;
    u.words.low = 0;
    double high = u.number, low = x - high;
    return high * high + 2 * high * low + low * low;
}

EXPORT(cubed) double cubed(double x) {
    Words u;
    u.number = x;
    u.words.high &= 0x7fffffff;
    return u.number * u.number * u.number;
}

/* Eight times x, squared. */
EXPORT(scaled) double scaled(double x) {
    Words u;
    u.number = x;
    u.words.high += 3u << 20;
    return u.number * u.number;
}

EXPORT(power_of_two) double power_of_two(double x, int k) {
    Words u;
    u.number = 1;
    u.words.high = 0x3ff00000u + ((unsigned)k << 20);
    return x * u.number;
}

/* The exponent by itself, and the rest between 0.7 and 1.4: a sum of odd powers. */
EXPORT(logarithm) double logarithm(double x) {
    Words u;
    int high, up;
    u.number = x;
    high = u.words.high;
    int power = (high >> 20) - 1023;
    high &= 0xfffff;
    up = (high + 0x95f64) & 0x100000;
    u.number = x;
    u.words.high = high | (up ^ 0x3ff00000);
    power += up >> 20;
    double s = (u.number - 1) / (u.number + 1), square = s * s, sum = 0;
    for (int i = 25; i > 0; i -= 2) sum = sum * square + 2.0 / i;
    return power * 0.69314718055994530942 + s * sum;
}

/* A power of two, multiplied by way of the exponent. */
EXPORT(exponential) double exponential(double x) {
    int power = (int)(x * 1.4426950408889634 + (x < 0 ? -0.5 : 0.5));
    double r = (x - power * 0.69314718055994530942) / 16;
    double y = 1 + r * (1 + r / 2 * (1 + r / 3 * (1 + r / 4 * (1 + r / 5 * (1 + r / 6 * (1 + r / 7 * (1 + r / 8)))))));
    y *= y, y *= y, y *= y, y *= y;
    Words u;
    unsigned high;
    u.number = y;
    high = u.words.high;
    u.number = y;
    u.words.high = high + ((unsigned)power << 20);
    return u.number;
}

/* The sign of y. */
EXPORT(signed_as) double signed_as(double x, double y) {
    Words u, v;
    u.number = x;
    v.number = y;
    unsigned of_x = u.words.high, of_y = v.words.high;
    u.number = x;
    u.words.high = (of_x & 0x7fffffff) | (of_y & 0x80000000);
    return u.number * u.number * u.number;
}

/* An exponent that is computed from the number's own. */
EXPORT(scaled_by) double scaled_by(double x, int n) {
    Words u;
    u.number = x;
    int high = u.words.high, power = (high & 0x7ff00000) >> 20;
    power += n;
    u.words.high = (high & 0x800fffff) | (power << 20);
    return u.number * u.number;
}

/* Some of the last digits cut off. */
EXPORT(cut) double cut(double x) {
    Words u;
    u.number = x;
    unsigned low = u.words.low;
    double y = x;
    u.number = y;
    u.words.low = low & 0xf8000000;
    y = u.number;
    return y * y + (x - y) * 2 * y;
}
