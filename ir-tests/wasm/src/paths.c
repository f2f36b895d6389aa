/* Doubles taken apart by a union of a double and two words, on some of the paths through a function
 * and put together after them: as in FreeBSD's library of mathematics, whose functions have branches
 * for small numbers and for large ones. */
#include "program.h"
#include "taken_apart.h"

static unsigned high_of(double x) {
    Words u;
    u.number = x;
    return u.words.high;
}

/* Macros, so that the words lie in the frame of the function that uses them. */
#define HIGH_WORD(high_, x) \
    do { \
        Words u_; \
        u_.number = (x); \
        (high_) = u_.words.high; \
    } while (0)
#define SET_HIGH_WORD(x, high_) \
    do { \
        Words u_; \
        u_.number = (x); \
        u_.words.high = (high_); \
        (x) = u_.number; \
    } while (0)
#define INSERT_WORDS(x, high_, low_) \
    do { \
        Words u_; \
        u_.words.high = (high_); \
        u_.words.low = (low_); \
        (x) = u_.number; \
    } while (0)

/* Numbers below the normal ones are scaled up first. */
EXPORT(logarithm) double logarithm(double x) {
    int high, up, power = 0;
    HIGH_WORD(high, x);
    if (high < 0x00100000) {
        if (high < 0) return 0;
        power -= 54;
        x *= 0x1p54;
        HIGH_WORD(high, x);
    }
    if (high >= 0x7ff00000) return x + x;
    power += (high >> 20) - 1023;
    high &= 0x000fffff;
    up = (high + 0x95f64) & 0x100000;
    SET_HIGH_WORD(x, high | (up ^ 0x3ff00000));
    power += up >> 20;
    double s = (x - 1) / (x + 1), square = s * s, sum = 0;
    for (int i = 25; i > 0; i -= 2) sum = sum * square + 2.0 / i;
    return power * 0.69314718055994530942 + s * sum;
}

/* Small ones as they are, results below the normal ones by a detour. */
EXPORT(exponential) double exponential(double x) {
    unsigned high;
    int power = 0;
    double r = x;
    HIGH_WORD(high, x);
    high &= 0x7fffffff;
    if (high > 0x3fd62e42) {
        power = (int)(x * 1.4426950408889634 + (x < 0 ? -0.5 : 0.5));
        r = x - power * 0.69314718055994530942;
    } else if (high < 0x3e300000) {
        return 1 + x;
    }
    double y = 1;
    for (int i = 16; i > 0; i--) y = 1 + r * y / i;
    if (power == 0) return y;
    HIGH_WORD(high, y);
    if (power >= -1021) {
        SET_HIGH_WORD(y, high + ((unsigned)power << 20));
        return y;
    }
    SET_HIGH_WORD(y, high + ((unsigned)(power + 1000) << 20));
    return y * 0x1p-1000;
}

EXPORT(scaled_up) double scaled_up(double x, int n) {
    int high, power;
    HIGH_WORD(high, x);
    power = (high & 0x7ff00000) >> 20;
    if (power == 0) {
        x *= 0x1p54;
        HIGH_WORD(high, x);
        power = ((high & 0x7ff00000) >> 20) - 54;
    }
    power += n;
    if (power > 0) {
        SET_HIGH_WORD(x, (high & 0x800fffff) | (power << 20));
        return x;
    }
    power += 54;
    SET_HIGH_WORD(x, (high & 0x800fffff) | (power << 20));
    return x * 0x1p-54;
}

static double parts(double x, int *power) {
    int high, small = 0;
    HIGH_WORD(high, x);
    if ((high & 0x7fffffff) < 0x00100000) {
        x *= 0x1p54;
        HIGH_WORD(high, x);
        small = -54;
    }
    SET_HIGH_WORD(x, (high & 0x800fffff) | 0x3fe00000);
    *power = small + ((high & 0x7fffffff) >> 20) - 1022;
    return x;
}

/* What is between a half and one, squared, times its exponent. */
EXPORT(weighted) double weighted(double x) {
    int power;
    double part = parts(x, &power);
    return part * part * power;
}

/* The first guess from a third of the upper half; then Halley's method. */
EXPORT(cube_root) double cube_root(double x) {
    unsigned high, sign;
    double y = 0;
    HIGH_WORD(high, x);
    sign = high & 0x80000000;
    high ^= sign;
    if (high < 0x00100000) {
        if (x == 0) return x;
        x *= 0x1p54;
        HIGH_WORD(high, x);
        high &= 0x7fffffff;
        INSERT_WORDS(y, sign | (high / 3 + 696219795), 0);
    } else {
        INSERT_WORDS(y, sign | (high / 3 + 715094163), 0);
    }
    for (int i = 0; i < 4; i++) y = y * (y * y * y + 2 * x) / (2 * y * y * y + x);
    return x == 0 || (high_of(x) & 0x7fffffff) >= 0x00100000 ? y : y * 0x1p-18;
}

/* A square root, from half of it. */
EXPORT(root) double root(double x) {
    unsigned high;
    double y;
    HIGH_WORD(high, x);
    INSERT_WORDS(y, (high >> 1) + 0x1ff80000, 0);
    for (int i = 0; i < 5; i++) y = 0.5 * (y + x / y);
    return y;
}

/* Twice, or half of it. */
EXPORT(either) double either(double x, int up) {
    unsigned high;
    HIGH_WORD(high, x);
    if (up)
        SET_HIGH_WORD(x, high + 0x00100000);
    else
        SET_HIGH_WORD(x, high - 0x00100000);
    return x * x;
}

/* An upper half that a loop calculates with. */
EXPORT(doubled) double doubled(double x, int n) {
    unsigned high;
    HIGH_WORD(high, x);
    for (int i = 0; i < n; i++) high += 0x00100000;
    SET_HIGH_WORD(x, high);
    return x * x;
}

/* Without their signs, the larger one first. */
EXPORT(larger_first) double larger_first(double x, double y) {
    unsigned a, b;
    HIGH_WORD(a, x);
    HIGH_WORD(b, y);
    a &= 0x7fffffff, b &= 0x7fffffff;
    if (b > a) {
        double other = x;
        unsigned swapped = a;
        x = y, y = other, a = b, b = swapped;
    }
    SET_HIGH_WORD(x, a);
    SET_HIGH_WORD(y, b);
    return x * x * x + y;
}

/* The exponent goes out through a pointer before the upper half is set. */
static double fraction(double x, int *power) {
    int high, size;
    HIGH_WORD(high, x);
    size = high & 0x7fffffff;
    *power = 0;
    if (size < 0x00100000) {
        x *= 0x1p54;
        HIGH_WORD(high, x);
        size = high & 0x7fffffff;
        *power = -54;
    }
    *power += (size >> 20) - 1022;
    SET_HIGH_WORD(x, (high & 0x800fffff) | 0x3fe00000);
    return x;
}

EXPORT(apart) double apart(double x) {
    int power;
    double part = fraction(x, &power);
    return part * part * power;
}

EXPORT(apart_each) double apart_each(const double *x, int *powers, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double part = fraction(x[i], &powers[i]);
        sum += part * part * (i + 1);
    }
    return sum;
}

/* Scaled by a power of two again and again, with functions that are called beside it. */
static double scaled(double x, int n) {
    int high, power;
    HIGH_WORD(high, x);
    power = (high & 0x7ff00000) >> 20;
    if (power == 0) {
        if (x == 0) return x;
        x *= 0x1p54;
        HIGH_WORD(high, x);
        power = ((high & 0x7ff00000) >> 20) - 54;
    }
    power += n;
    if (power > 0x7fe) return 1e300 * exp(x);
    SET_HIGH_WORD(x, (high & 0x800fffff) | (power << 20));
    return x;
}

EXPORT(octaves) double octaves(double x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += scaled(x, i) * exp(-i);
    return sum;
}

/* An upper half alone: the longer side, cut off after some digits, and what is left of it. */
EXPORT(distance) double distance(double x, double y) {
    double a, b, cut;
    unsigned high_a, high_b;
    HIGH_WORD(high_a, x);
    HIGH_WORD(high_b, y);
    high_a &= 0x7fffffff, high_b &= 0x7fffffff;
    if (high_b > high_a) {
        unsigned swapped = high_a;
        a = y, b = x, high_a = high_b, high_b = swapped;
    } else {
        a = x, b = y;
    }
    SET_HIGH_WORD(a, high_a);
    SET_HIGH_WORD(b, high_b);
    cut = 0;
    SET_HIGH_WORD(cut, high_a);
    double rest = a - cut;
    return __builtin_sqrt(cut * cut + (b * b + rest * (a + cut))) * x;
}

/* What a callee writes is not where the words lie. */
__attribute__((noinline)) static void halves_of(double x, double *large, double *small) {
    *large = x * 0.75;
    *small = x - *large;
}

EXPORT(beside) double beside(double x, double y) {
    double large, small;
    Words u;
    u.number = x;
    halves_of(y, &large, &small);
    u.words.high = (u.words.high & 0x800fffff) | 0x3ff00000;
    return u.number * (large + small) * large;
}

/* A union with an integer of 64 bits, whose upper half is a variable of its own. */
EXPORT(one_more) double one_more(double x) {
    union {
        double number;
        unsigned long long bits;
    } u = {1 + x};
    unsigned high = u.bits >> 32;
    high += 0x3ff00000 - 0x3fe6a09e;
    int power = (int)(high >> 20) - 0x3ff;
    high = (high & 0x000fffff) + 0x3fe6a09e;
    u.bits = (unsigned long long)high << 32 | (u.bits & 0xffffffff);
    double s = (u.number - 1) / (u.number + 1), square = s * s, sum = 0;
    for (int i = 25; i > 0; i -= 2) sum = sum * square + 2.0 / i;
    return (power * 0.69314718055994530942 + s * sum) * x;
}

/* A root whose last digits are cut off, and one unit of its upper half more. */
EXPORT(cube_root_of_old) double cube_root_of_old(double x) {
    double y = 0;
    unsigned high, sign;
    HIGH_WORD(high, x);
    sign = high & 0x80000000;
    high ^= sign;
    SET_HIGH_WORD(x, high);
    SET_HIGH_WORD(y, (int)high / 3 + 715094163);
    y = y * (y * y * y + 2 * x) / (2 * y * y * y + x);
    y = y * (y * y * y + 2 * x) / (2 * y * y * y + x);
    {
        Words u;
        u.number = y;
        u.words.low = 0;
        y = u.number;
    }
    HIGH_WORD(high, y);
    SET_HIGH_WORD(y, high + 1);
    y = y + y * (x / (y * y) - y) / (2 * y + x / (y * y));
    HIGH_WORD(high, y);
    SET_HIGH_WORD(y, high | sign);
    return y;
}

/* The largest whole number below, by masks that are computed: known by what it computes. */
__attribute__((noinline)) static double whole(double x) {
    Words u;
    u.number = x;
    int exponent = (int)(u.words.high >> 20 & 0x7ff) - 1023;
    if (exponent < 0) return x < 0 ? -1 : 0;
    if (exponent >= 52) return x;
    if (exponent < 20) {
        u.words.high &= ~(0x000fffffu >> exponent);
        u.words.low = 0;
    } else {
        u.words.low &= ~(0xffffffffu >> (exponent - 20));
    }
    return x < u.number ? u.number - 1 : u.number;
}

EXPORT(above_whole) double above_whole(double x) { return (x - whole(x)) * x; }

/* What lies in a frame may be written through an address that a global variable has. */
static Words *shown;
__attribute__((noinline)) static void show(double x) { shown->number = x; }

EXPORT(replaced) double replaced(double x, double y) {
    Words first, second;
    shown = &first;
    first.number = x;
    show(y);
    unsigned high = first.words.high, low = first.words.low;
    second.words.low = low;
    second.words.high = high;
    return second.number * x;
}

/* Also by the same number. */
static double *kept;
__attribute__((noinline)) static void keep(double x) { *kept = x; }

EXPORT(kept_by_a_callee) double kept_by_a_callee(double x, double y) {
    double z;
    kept = &z;
    z = x;
    keep(y);
    return 3 * z + x;
}

/* An address below one that a variable has is in no frame. */
static double room[4], *top = room + 2;
__attribute__((noinline)) static void put(double x) { top[-1] = x; }

EXPORT(below) double below(double x, double y) {
    double *p = top - 1;
    *p = x;
    put(y);
    return 3 * *p;
}
