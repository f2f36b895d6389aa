/* Small numerical kernels, each with something that a gradient can get wrong in time, and not in digits: two outer products in one matrix,
 * whose rows may overlap with everything; a camera with a long turn of divisions and roots; a matrix that is walked down its columns; a recursion whose
 * value is needed. */
#include "program.h"

EXPORT(outer)
double outer(int n, const double *u, const double *v, const double *p, const double *q, double *b) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            b[i * n + j] = u[i] * v[j] + p[i] * q[j];
    double sum = 0;
    for (int i = 0; i < n * n; i++)
        sum += b[i] * b[i];
    return sum;
}

/* A pose is a quaternion, which need not be a unit, and a place; then focal lengths, radial and tangential distortion, and the centre. */
enum { POSE = 15 };

EXPORT(camera)
double camera(int n, const double *poses, const double *points, const double *seen) {
    double sum = 0;
    for (int m = 0; m < n; m++) {
        const double *c = poses + POSE * m, *x = points + 3 * m, *s = seen + 2 * m;
        double length = sqrt(c[0] * c[0] + c[1] * c[1] + c[2] * c[2] + c[3] * c[3]);
        double w = c[0] / length, i = c[1] / length, j = c[2] / length, k = c[3] / length;
        double tx = 2 * (j * x[2] - k * x[1]), ty = 2 * (k * x[0] - i * x[2]), tz = 2 * (i * x[1] - j * x[0]);
        double px = x[0] + w * tx + (j * tz - k * ty) + c[4];
        double py = x[1] + w * ty + (k * tx - i * tz) + c[5];
        double pz = x[2] + w * tz + (i * ty - j * tx) + c[6];
        double a = px / pz, b = py / pz, r = a * a + b * b;
        double radial = 1 + r * (c[9] + r * c[10]);
        double d = c[7] * (a * radial + 2 * c[11] * a * b + c[12] * (r + 2 * a * a)) + c[13] - s[0];
        double e = c[8] * (b * radial + 2 * c[12] * a * b + c[11] * (r + 2 * b * b)) + c[14] - s[1];
        sum += sqrt(1 + d * d + e * e) - 1;
    }
    return sum;
}

/* The squares of all elements of a product. */
EXPORT(columns)
double columns(int n, const double *a, const double *b) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double c = 0;
            for (int k = 0; k < n; k++)
                c += a[i * n + k] * b[k * n + j];
            sum += c * c;
        }
    return sum;
}

static double energy(int n, const double *x) {
    if (n == 1)
        return x[0] * x[0];
    int half = n / 2;
    return energy(half, x) + energy(n - half, x + half);
}

EXPORT(halving)
double halving(int n, const double *x) {
    double sum = energy(n, x);
    return sqrt(1 + sum * sum);
}
