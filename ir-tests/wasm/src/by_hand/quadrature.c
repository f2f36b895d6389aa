/* Adjoint of quadrature.
 *
 * The integral is a sum over intervals, so its seed is known to each at once, and cotangents come back as results of the
 * recursion. Stored, in its frames: the slopes of the integrand at two points, which are cheap together with the value.
 * Nothing is computed twice.
 */
#include "adjoint.h"

/* Value of an integrand, and its derivatives by x, p and q. */
typedef double Integrand(double x, double p, double q, double *slopes);

static double bell(double x, double p, double q, double *slopes) {
    (void)q;
    double squared = p * p, value = exp(-x * x / squared);
    slopes[0] = -2 * x / squared * value;
    slopes[1] = -x / p * slopes[0];
    slopes[2] = 0;
    return value;
}

static double wave(double x, double p, double q, double *slopes) {
    double damping = exp(-p * x), sine = sin(q * x), cosine = cos(q * x), value = damping * sine;
    slopes[0] = damping * (q * cosine - p * sine);
    slopes[1] = -x * value;
    slopes[2] = x * damping * cosine;
    return value;
}

static double root(double x, double p, double q, double *slopes) {
    (void)q;
    double value = sqrt(x * x + p);
    slopes[0] = x / value;
    slopes[1] = 0.5 / value;
    slopes[2] = 0;
    return value;
}

static double simpson(double left, double middle, double right, double width) {
    return (left + 4 * middle + right) * width / 6;
}

/* Cotangents of an interval: its ends, the integrand at three points, the first estimate. */
typedef struct {
    double a, b, left, middle, right, whole;
} Interval;

/* What is the same for all. */
typedef struct {
    Integrand *f;
    double p, q, p_bar, q_bar, seed;
} Context;

/* What the integrand's cotangent means for its point. */
static double point(Context *c, double value_bar, const double *slopes) {
    c->p_bar += value_bar * slopes[1];
    c->q_bar += value_bar * slopes[2];
    return value_bar * slopes[0];
}

static Interval refine(Context *c, double a, double b, double left, double middle, double right, double whole,
                       double tolerance, int depth) {
    double width = b - a, centre = (a + b) / 2, slopes[2][3];
    double first = c->f((a + centre) / 2, c->p, c->q, slopes[0]);
    double second = c->f((centre + b) / 2, c->p, c->q, slopes[1]);
    double one = simpson(left, first, middle, width / 2), two = simpson(middle, second, right, width / 2);
    double error = one + two - whole, one_bar, two_bar, first_bar = 0, second_bar = 0, centre_bar = 0;
    Interval out = {0, 0, 0, 0, 0, 0};
    if (depth == 0 || (error < 15 * tolerance && error > -15 * tolerance)) {
        out.whole = -c->seed / 15;
        one_bar = two_bar = c->seed + c->seed / 15;
    } else {
        Interval l = refine(c, a, centre, left, first, middle, one, tolerance / 2, depth - 1);
        Interval r = refine(c, centre, b, middle, second, right, two, tolerance / 2, depth - 1);
        out.a = l.a;
        out.b = r.b;
        out.left = l.left;
        out.middle = l.right + r.left;
        out.right = r.right;
        first_bar = l.middle;
        second_bar = r.middle;
        centre_bar = l.b + r.a;
        one_bar = l.whole;
        two_bar = r.whole;
    }
    double one_part = one_bar * (width / 2) / 6, two_part = two_bar * (width / 2) / 6;
    double half_bar = (one_bar * (left + 4 * first + middle) + two_bar * (middle + 4 * second + right)) / 6;
    out.left += one_part;
    out.middle += one_part + two_part;
    out.right += two_part;
    double first_point = point(c, first_bar + 4 * one_part, slopes[0]);
    double second_point = point(c, second_bar + 4 * two_part, slopes[1]);
    centre_bar += (first_point + second_point) / 2;
    out.a += first_point / 2 + centre_bar / 2 - half_bar / 2;
    out.b += second_point / 2 + centre_bar / 2 + half_bar / 2;
    return out;
}

ADJOINT(quadrature_adjoint)
void quadrature_adjoint(int which, double a, double b, double p, double q, double tolerance, double *a_bar,
                        double *b_bar, double *p_bar, double *q_bar, double *tolerance_bar, double seed) {
    (void)tolerance_bar; /* It only says when to stop. */
    static Integrand *const functions[] = {bell, wave, root};
    if (which < 0 || which > 2)
        __builtin_trap();
    Context c = {functions[which], p, q, 0, 0, seed};
    double slopes[3][3];
    double left = c.f(a, p, q, slopes[0]), middle = c.f((a + b) / 2, p, q, slopes[1]), right = c.f(b, p, q, slopes[2]);
    Interval all = refine(&c, a, b, left, middle, right, simpson(left, middle, right, b - a), tolerance, 12);
    double part = all.whole * (b - a) / 6, width_bar = all.whole * (left + 4 * middle + right) / 6;
    double centre_bar = point(&c, all.middle + 4 * part, slopes[1]);
    *a_bar += all.a - width_bar + point(&c, all.left + part, slopes[0]) + centre_bar / 2;
    *b_bar += all.b + width_bar + point(&c, all.right + part, slopes[2]) + centre_bar / 2;
    *p_bar += c.p_bar;
    *q_bar += c.q_bar;
}
