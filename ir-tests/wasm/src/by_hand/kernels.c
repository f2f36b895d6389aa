/* Adjoints of kernels.
 *
 * Nothing is stored. The outer product reads its matrix again; a point's projection is computed again, and then reversed; the product computes each of its elements again
 * and then goes down the column once more; the recursion runs plainly, and then with the cotangent of its value.
 */
#include "adjoint.h"

#include "../kernels.c"

ADJOINT(outer_adjoint)
void outer_adjoint(int n, const double *u, const double *v, const double *p, const double *q, double *b, double *u_bar,
                   double *v_bar, double *p_bar, double *q_bar, double *b_bar, double seed) {
    for (int i = 0; i < n; i++) {
        double to_u = 0, to_p = 0;
        for (int j = 0; j < n; j++) {
            double element = u[i] * v[j] + p[i] * q[j], bar = b_bar[i * n + j] + 2 * seed * element;
            b_bar[i * n + j] = 0;
            to_u += bar * v[j];
            to_p += bar * q[j];
            v_bar[j] += bar * u[i];
            q_bar[j] += bar * p[i];
        }
        u_bar[i] += to_u;
        p_bar[i] += to_p;
    }
    (void)b;
}

ADJOINT(camera_adjoint)
void camera_adjoint(int n, const double *poses, const double *points, const double *seen, double *poses_bar,
                    double *points_bar, double *seen_bar, double seed) {
    for (int m = 0; m < n; m++) {
        const double *c = poses + POSE * m, *x = points + 3 * m, *s = seen + 2 * m;
        double *c_bar = poses_bar + POSE * m, *x_bar = points_bar + 3 * m, *s_bar = seen_bar + 2 * m;
        double scale = 1 / sqrt(c[0] * c[0] + c[1] * c[1] + c[2] * c[2] + c[3] * c[3]);
        double w = c[0] * scale, i = c[1] * scale, j = c[2] * scale, k = c[3] * scale;
        double tx = 2 * (j * x[2] - k * x[1]), ty = 2 * (k * x[0] - i * x[2]), tz = 2 * (i * x[1] - j * x[0]);
        double px = x[0] + w * tx + (j * tz - k * ty) + c[4];
        double py = x[1] + w * ty + (k * tx - i * tz) + c[5];
        double pz = x[2] + w * tz + (i * ty - j * tx) + c[6];
        double near = 1 / pz, a = px * near, b = py * near;
        double ab = a * b, aa = a * a, bb = b * b, r = aa + bb;
        double radial = 1 + r * (c[9] + r * c[10]);
        double u = a * radial + 2 * c[11] * ab + c[12] * (r + 2 * aa);
        double v = b * radial + 2 * c[12] * ab + c[11] * (r + 2 * bb);
        double d = c[7] * u + c[13] - s[0], e = c[8] * v + c[14] - s[1];
        double part = seed / sqrt(1 + d * d + e * e);
        double d_bar = d * part, e_bar = e * part;
        s_bar[0] -= d_bar;
        s_bar[1] -= e_bar;
        c_bar[13] += d_bar;
        c_bar[14] += e_bar;
        c_bar[7] += d_bar * u;
        c_bar[8] += e_bar * v;
        double u_bar = d_bar * c[7], v_bar = e_bar * c[8];
        double radial_bar = u_bar * a + v_bar * b;
        c_bar[11] += 2 * ab * u_bar + (r + 2 * bb) * v_bar;
        c_bar[12] += 2 * ab * v_bar + (r + 2 * aa) * u_bar;
        c_bar[9] += radial_bar * r;
        c_bar[10] += radial_bar * r * r;
        double r_bar = radial_bar * (c[9] + 2 * r * c[10]) + c[12] * u_bar + c[11] * v_bar;
        double ab_bar = 2 * (c[11] * u_bar + c[12] * v_bar);
        double a_bar = u_bar * radial + ab_bar * b + 2 * a * (r_bar + 2 * c[12] * u_bar);
        double b_bar = v_bar * radial + ab_bar * a + 2 * b * (r_bar + 2 * c[11] * v_bar);
        double px_bar = a_bar * near, py_bar = b_bar * near, pz_bar = -(px_bar * a + py_bar * b);
        c_bar[4] += px_bar;
        c_bar[5] += py_bar;
        c_bar[6] += pz_bar;
        double tx_bar = 2 * (px_bar * w + py_bar * k - pz_bar * j);
        double ty_bar = 2 * (py_bar * w - px_bar * k + pz_bar * i);
        double tz_bar = 2 * (pz_bar * w + px_bar * j - py_bar * i);
        double w_bar = px_bar * tx + py_bar * ty + pz_bar * tz;
        double i_bar = pz_bar * ty - py_bar * tz + tz_bar * x[1] - ty_bar * x[2];
        double j_bar = px_bar * tz - pz_bar * tx + tx_bar * x[2] - tz_bar * x[0];
        double k_bar = py_bar * tx - px_bar * ty + ty_bar * x[0] - tx_bar * x[1];
        x_bar[0] += px_bar + ty_bar * k - tz_bar * j;
        x_bar[1] += py_bar + tz_bar * i - tx_bar * k;
        x_bar[2] += pz_bar + tx_bar * j - ty_bar * i;
        double along = w * w_bar + i * i_bar + j * j_bar + k * k_bar;
        c_bar[0] += scale * (w_bar - w * along);
        c_bar[1] += scale * (i_bar - i * along);
        c_bar[2] += scale * (j_bar - j * along);
        c_bar[3] += scale * (k_bar - k * along);
    }
}

ADJOINT(columns_adjoint)
void columns_adjoint(int n, const double *a, const double *b, double *a_bar, double *b_bar, double seed) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double c = 0;
            for (int k = 0; k < n; k++)
                c += a[i * n + k] * b[k * n + j];
            double c_bar = 2 * seed * c;
            for (int k = 0; k < n; k++) {
                a_bar[i * n + k] += c_bar * b[k * n + j];
                b_bar[k * n + j] += c_bar * a[i * n + k];
            }
        }
}

static void energy_adjoint(int n, const double *x, double *x_bar, double seed) {
    if (n == 1) {
        x_bar[0] += 2 * seed * x[0];
        return;
    }
    int half = n / 2;
    energy_adjoint(half, x, x_bar, seed);
    energy_adjoint(n - half, x + half, x_bar + half, seed);
}

ADJOINT(halving_adjoint)
void halving_adjoint(int n, const double *x, double *x_bar, double seed) {
    double sum = energy(n, x);
    energy_adjoint(n, x, x_bar, seed * sum / sqrt(1 + sum * sum));
}
