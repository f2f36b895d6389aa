// C's functions that leave a number behind a pointer, have a `long`, or compare memory; imported, and from the library.

int memcmp(const void *, const void *, __SIZE_TYPE__);
long lrint(double);
double remquo(double, double, int *), lgamma_r(double, int *), scalbln(double, long);
float remquof(float, float, int *);

#define EXPORT(name) __attribute__((export_name(#name))) name

// x = 3 y + r: 2 r, and -6 r.
double EXPORT(rest)(double x, double y) {
    int q;
    double r = remquo(x, y, &q);
    return r * r + q;
}

// 3 r.
float EXPORT(rest_of_singles)(float x, float y) {
    int q;
    float r = remquof(x, y, &q);
    return r * (float)q;
}

// The digamma function, with the sign of gamma.
double EXPORT(log_gamma)(double x) {
    int sign;
    double z = lgamma_r(x, &sign);
    return sign * z;
}

// 2^n, times the whole number.
double EXPORT(scaled)(double x, int n) { return scalbln(x, n) * (double)lrint(x); }

// A product of numbers that are the same, or a difference.
double EXPORT(pick)(const double *a, const double *b, int n) {
    return memcmp(a, b, (unsigned)n) == 0 ? a[0] * b[0] : a[0] - b[0];
}
