/* Doubles taken apart, and put together, by a union of a double and two words, as FreeBSD's library of mathematics does. Without optimisation the words go through memory.
 */
#include "program.h"

typedef union {
    double number;
    struct {
        unsigned low, high;
    } words;
} Words;

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
