/* Bundle adjustment: how far the projections of points by cameras are from where they were seen.
 *
 * A camera is a rotation vector, a centre, a focal length, a principal point and two coefficients of radial distortion:
 * 11 numbers. Every observation has a weight w and contributes w (projection - seen), and 1 - w^2, which keeps the
 * weights from vanishing. Nothing is allocated.
 */
#include "program.h"

enum { CAMERA = 11 };

static void cross(const double *a, const double *b, double *out) {
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

static double dot(const double *a, const double *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

/* Rodrigues' formula; its first-order part near zero, where the angle has no derivative. */
static void rotate(const double *rotation, const double *x, double *out) {
    double squared = dot(rotation, rotation);
    double turned[3];
    if (squared > 1e-10) {
        double angle = sqrt(squared);
        double cosine = cos(angle), sine = sin(angle);
        double axis[3] = {rotation[0] / angle, rotation[1] / angle, rotation[2] / angle};
        cross(axis, x, turned);
        double along = dot(axis, x) * (1 - cosine);
        for (int i = 0; i < 3; i++)
            out[i] = x[i] * cosine + turned[i] * sine + axis[i] * along;
    } else {
        cross(rotation, x, turned);
        for (int i = 0; i < 3; i++)
            out[i] = x[i] + turned[i];
    }
}

static void project(const double *camera, const double *point, double *pixel) {
    const double *rotation = camera, *centre = camera + 3, *principal = camera + 7, *distortion = camera + 9;
    double focal = camera[6];
    double shifted[3], seen[3];
    for (int i = 0; i < 3; i++)
        shifted[i] = point[i] - centre[i];
    rotate(rotation, shifted, seen);
    double x = seen[0] / seen[2], y = seen[1] / seen[2];
    double radius = x * x + y * y;
    double stretch = 1 + distortion[0] * radius + distortion[1] * radius * radius;
    pixel[0] = x * stretch * focal + principal[0];
    pixel[1] = y * stretch * focal + principal[1];
}

/* cameras[][11], points[][3], weights[n], observed[n][2] = (camera, point), features[n][2] -> errors[n][2],
 * penalties[n]. */
EXPORT(ba_residuals)
void ba_residuals(int n, const double *cameras, const double *points, const double *weights, const int *observed,
                  const double *features, double *errors, double *penalties) {
    for (int i = 0; i < n; i++) {
        double pixel[2];
        project(cameras + CAMERA * observed[2 * i], points + 3 * observed[2 * i + 1], pixel);
        errors[2 * i] = weights[i] * (pixel[0] - features[2 * i]);
        errors[2 * i + 1] = weights[i] * (pixel[1] - features[2 * i + 1]);
        penalties[i] = 1 - weights[i] * weights[i];
    }
}

/* Half the sum of squares of all residuals; at most 64 observations. */
EXPORT(ba_loss)
double ba_loss(int n, const double *cameras, const double *points, const double *weights, const int *observed,
               const double *features) {
    double errors[2 * 64], penalties[64];
    if (n > 64)
        __builtin_trap();
    ba_residuals(n, cameras, points, weights, observed, features, errors, penalties);
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += errors[2 * i] * errors[2 * i] + errors[2 * i + 1] * errors[2 * i + 1] + penalties[i] * penalties[i];
    return sum / 2;
}
