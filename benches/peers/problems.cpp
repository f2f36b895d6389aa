// The problems in C++: p_NAME computes the value, h_NAME is the adjoint written by hand, which overwrites g with the gradient.
//
// x holds all floats that are differentiated, argument after argument; ip all integers, first those by value, then arrays. Orders
// of arguments and of arithmetic are those of the .clif files, so the adjoints here and there are the same algorithms.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

using Int = long;
using In = const double *__restrict__;
using Ints = const Int *__restrict__;
using Out = double *__restrict__;

namespace value {

static inline double mul(In x, Ints) { return x[0] * x[1]; }

static inline void rot(In x, Out y) {
    const double *v = x, *u = x + 3;
    const double s = x[6];
    const double duv = u[0] * v[0] + u[1] * v[1] + u[2] * v[2], duu = u[0] * u[0] + u[1] * u[1] + u[2] * u[2];
    const double k1 = 2.0 * duv, k2 = s * s - duu, k3 = 2.0 * s;
    const double c[3] = {u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]};
    for (int k = 0; k < 3; k++) y[k] = k1 * u[k] + k2 * v[k] + k3 * c[k];
}

static inline double block(In x, Ints) {
    double t = x[0];
#pragma GCC unroll 400
    for (int i = 0; i < 400; i++) t *= x[1];
    return t;
}

static inline double sum(In x, Ints ip) {
    double s = 0;
    for (Int i = 0; i < ip[0]; i++) s += x[i];
    return s;
}

static inline double dot(In x, Ints ip) {
    const Int n = ip[0];
    double s = 0;
    for (Int i = 0; i < n; i++) s += x[i] * x[n + i];
    return s;
}

static inline double sumsin(In x, Ints ip) {
    double s = 0;
    for (Int i = 0; i < ip[0]; i++) s += std::sin(x[i]);
    return s;
}

static inline double sce(In x, Ints ip) {
    double y[128], s = 0;
    for (Int i = 0; i < ip[0]; i++) y[i] = std::sin(std::cos(std::exp(x[i])));
    for (Int i = 0; i < ip[0]; i++) s += y[i];
    return s;
}

static inline double smv(In x, Ints ip) {
    const Int n = ip[0];
    const double *v = x + n * n;
    double total = 0;
    for (Int i = 0; i < n; i++) {
        double s = 0;
        for (Int j = 0; j < n; j++) s += x[i * n + j] * v[j];
        total += s;
    }
    return total;
}

static inline double kron(In x, Ints ip) {
    const Int m = ip[0], q = ip[1], size = m * m * q * q;
    const double *y = x + m * m;
    double *z = (double *)malloc(size * sizeof(double)), s = 0;
    Int o = 0;
    for (Int j = 0; j < m; j++)
        for (Int l = 0; l < q; l++)
            for (Int i = 0; i < m; i++)
                for (Int k = 0; k < q; k++) z[o++] = x[j * m + i] * y[l * q + k];
    for (Int i = 0; i < size; i++) s += z[i];
    free(z);
    return s;
}

struct Network {
    Int ni, n1, n2, no;
    template <class P> struct Parts { P w1, b1, w2, b2, w3, b3, in; };
    explicit Network(Ints ip) : ni(ip[0]), n1(ip[1]), n2(ip[2]), no(ip[3]) {}
    template <class P> Parts<P> parts(P p) const {
        Parts<P> r;
        r.w1 = p, r.b1 = r.w1 + n1 * ni, r.w2 = r.b1 + n1, r.b2 = r.w2 + n2 * n1, r.w3 = r.b2 + n2;
        r.b3 = r.w3 + no * n2, r.in = r.b3 + no;
        return r;
    }
};

static inline void dense(const double *w, const double *b, const double *in, double *out, Int rows, Int cols, bool relu) {
    for (Int i = 0; i < rows; i++) {
        double s = 0;
        for (Int j = 0; j < cols; j++) s += w[i * cols + j] * in[j];
        s += b[i];
        out[i] = !relu || s >= 0 ? s : 0.0;
    }
}

static inline double nn(In x, Ints ip) {
    const Network net(ip);
    const auto p = net.parts<const double *>(x);
    double h1[128], h2[128], o[32], top = 0, f = 0, r = 0;
    dense(p.w1, p.b1, p.in, h1, net.n1, net.ni, true);
    dense(p.w2, p.b2, h1, h2, net.n2, net.n1, true);
    dense(p.w3, p.b3, h2, o, net.no, net.n2, false);
    for (Int i = 0; i < net.no; i++) top = o[i] > top ? o[i] : top;
    for (Int i = 0; i < net.no; i++) f += o[i] = std::exp(o[i] - top);
    for (Int i = 0; i < net.no; i++) r += (o[i] / f) * (o[i] / f);
    return r;
}

// c = a b by rows, accumulated in memory.
static inline void product(const double *a, const double *b, double *c, Int rows, Int inner, Int n) {
    for (Int i = 0; i < rows; i++) {
        double *row = c + i * n;
        for (Int j = 0; j < n; j++) row[j] = 0;
        for (Int k = 0; k < inner; k++) {
            const double w = a[i * inner + k];
            for (Int j = 0; j < n; j++) row[j] += w * b[k * n + j];
        }
    }
}

static inline double mlp(In x, Ints ip) {
    const Int a = ip[0], b = ip[1], c = ip[2], n = ip[3];
    const double *w2 = x, *w1 = w2 + a * b, *y = w1 + b * c, *in = y + a * n;
    double *h = (double *)malloc(b * n * sizeof(double)), *o = (double *)malloc(a * n * sizeof(double)), s = 0;
    product(w1, in, h, b, c, n);
    for (Int i = 0; i < b * n; i++) h[i] = h[i] >= 0 ? h[i] : 0.0;
    product(w2, h, o, a, b, n);
    for (Int i = 0; i < a * n; i++) s += (y[i] - o[i]) * (y[i] - o[i]);
    free(h);
    free(o);
    return s;
}

static inline double spdot(In x, Ints ip) {
    const Int n = ip[0];
    const Int *ca = ip + 1, *ra = ca + n + 1, *cb = ra + ca[n], *rb = cb + n + 1;
    const double *a = x, *b = x + ca[n];
    double s = 0;
    for (Int j = 0; j < n; j++) {
        Int i = ca[j], k = cb[j];
        while (i < ca[j + 1] && k < cb[j + 1]) {
            if (ra[i] == rb[k]) s += a[i++] * b[k++];
            else if (ra[i] < rb[k]) i++;
            else k++;
        }
    }
    return s;
}

static inline void scatter(const double *a, const double *v, const Int *c, const Int *rows, Int n, double *y) {
    for (Int i = 0; i < n; i++) y[i] = 0;
    for (Int j = 0; j < n; j++)
        for (Int k = c[j]; k < c[j + 1]; k++) y[rows[k]] += a[k] * v[j];
}

static inline double spmv(In x, Ints ip) {
    const Int n = ip[0], *c = ip + 1, *rows = c + n + 1;
    double y[1024], s = 0;
    scatter(x, x + c[n], c, rows, n, y);
    for (Int i = 0; i < n; i++) s += y[i] * y[i];
    return s;
}

static inline double embed(In x, Ints ip) {
    const Int d = ip[0], n[2] = {ip[1], ip[2]};
    const Int *pair = ip + 3;
    double mean[2], spread = 0;
    for (int g = 0; g < 2; g++) {
        double lengths = 0, squares = 0;
        for (Int e = 0; e < n[g]; e++, pair += 2) {
            double s = 0;
            for (Int k = 0; k < d; k++) {
                const double t = x[pair[0] * d + k] - x[pair[1] * d + k];
                s += t * t;
            }
            lengths += std::sqrt(s);
            squares += s;
        }
        const double size = (double)n[g];
        mean[g] = lengths / size;
        spread += (squares / size - mean[g] * mean[g]) * (size / (size - 1));
    }
    const double apart = mean[0] - mean[1] + 0.1;
    return apart > 0 ? spread + (std::exp(apart) - 1.0) : spread;
}

constexpr double PART_DT = 0.05;

static inline double part(In x, Ints ip) {
    double sum = 0;
    for (Int k = 0; k < ip[0]; k++) {
        double px = x[4 * k], py = x[4 * k + 1], vx = x[4 * k + 2], vy = x[4 * k + 3];
        for (Int s = 0; s < ip[1]; s++) {
            const double ax = 1.0 * (-0.5 * px + -0.2 * vx), ay = 1.0 * (-0.5 * py + -0.2 * vy);
            px += PART_DT * vx;
            py += PART_DT * vy;
            vx += PART_DT * ax;
            vy += PART_DT * ay;
        }
        sum += px * py;
    }
    return sum;
}

struct Point { double x, y, z; };
struct Lorenz { double sigma, rho, beta; };
constexpr double H = 1e-3;

static inline Point slope(const Point &p, const Lorenz &l) {
    return {l.sigma * (p.y - p.x), p.x * (l.rho - p.z) - p.y, p.x * p.y - l.beta * p.z};
}

static inline Point ahead(const Point &p, double h, const Point &k) {
    return {p.x + h * k.x, p.y + h * k.y, p.z + h * k.z};
}

static inline Point step(const Point &p, const Lorenz &l) {
    const Point k1 = slope(p, l), k2 = slope(ahead(p, 0.5 * H, k1), l), k3 = slope(ahead(p, 0.5 * H, k2), l);
    const Point k4 = slope(ahead(p, H, k3), l);
    return {p.x + (H / 6.0) * (k1.x + 2.0 * k2.x + 2.0 * k3.x + k4.x),
            p.y + (H / 6.0) * (k1.y + 2.0 * k2.y + 2.0 * k3.y + k4.y),
            p.z + (H / 6.0) * (k1.z + 2.0 * k2.z + 2.0 * k3.z + k4.z)};
}

static inline double lorenz(In x, Ints ip) {
    Point p = {x[0], x[1], x[2]};
    const Lorenz l = {x[3], x[4], x[5]};
    for (Int i = 0; i < ip[0]; i++) p = step(p, l);
    return p.x + p.y + p.z;
}

constexpr double DT = 0.01;

static inline void accelerations(Int n, const double *q, const double *m, double *a) {
    for (Int i = 0; i < 3 * n; i++) a[i] = 0;
    for (Int i = 0; i < n; i++)
        for (Int j = i + 1; j < n; j++) {
            const double dx = q[3 * i] - q[3 * j], dy = q[3 * i + 1] - q[3 * j + 1], dz = q[3 * i + 2] - q[3 * j + 2];
            const double d2 = dx * dx + dy * dy + dz * dz, w = 1.0 / (d2 * std::sqrt(d2)), wj = m[j] * w, wi = m[i] * w;
            a[3 * i] -= dx * wj, a[3 * i + 1] -= dy * wj, a[3 * i + 2] -= dz * wj;
            a[3 * j] += dx * wi, a[3 * j + 1] += dy * wi, a[3 * j + 2] += dz * wi;
        }
}

static inline double planets(In x, Ints ip) {
    const Int n = ip[0], d = 3 * n;
    const double *m = x + 2 * d;
    double q[24], v[24], a[24], s = 0;
    for (Int i = 0; i < d; i++) q[i] = x[i], v[i] = x[d + i];
    accelerations(n, q, m, a);
    for (Int t = 0; t < ip[1]; t++) {
        for (Int i = 0; i < d; i++) v[i] += (0.5 * DT) * a[i], q[i] += DT * v[i];
        accelerations(n, q, m, a);
        for (Int i = 0; i < d; i++) v[i] += (0.5 * DT) * a[i];
    }
    for (Int i = 0; i < d; i++) s += q[i] * q[i];
    return s;
}

} // namespace value

namespace adjoint {
using namespace value;

static inline void mul(In x, Ints, Out g) { g[0] = x[1], g[1] = x[0]; }

static inline void rot_row(In x, double a, double b, double c, Out g) {
    const double *v = x, *u = x + 3;
    const double s = x[6], duv = u[0] * v[0] + u[1] * v[1] + u[2] * v[2], duu = u[0] * u[0] + u[1] * u[1] + u[2] * u[2];
    const double k1 = 2.0 * duv, k2 = s * s - duu, k3 = 2.0 * s;
    const double cx = u[1] * v[2] - u[2] * v[1], cy = u[2] * v[0] - u[0] * v[2], cz = u[0] * v[1] - u[1] * v[0];
    const double k1b = a * u[0] + b * u[1] + c * u[2], k2b = a * v[0] + b * v[1] + c * v[2], k3b = a * cx + b * cy + c * cz;
    const double cxb = k3 * a, cyb = k3 * b, czb = k3 * c, duvb = 2.0 * k1b, duub = -2.0 * k2b;
    g[0] = k2 * a + duvb * u[0] + u[2] * cyb - u[1] * czb;
    g[1] = k2 * b + duvb * u[1] - u[2] * cxb + u[0] * czb;
    g[2] = k2 * c + duvb * u[2] + u[1] * cxb - u[0] * cyb;
    g[3] = k1 * a + duvb * v[0] + duub * u[0] - v[2] * cyb + v[1] * czb;
    g[4] = k1 * b + duvb * v[1] + duub * u[1] + v[2] * cxb - v[0] * czb;
    g[5] = k1 * c + duvb * v[2] + duub * u[2] - v[1] * cxb + v[0] * cyb;
    g[6] = 2.0 * k3b + 2.0 * s * k2b;
}

static inline void rot(In x, Ints, Out g) {
    rot_row(x, 1, 0, 0, g);
    rot_row(x, 0, 1, 0, g + 7);
    rot_row(x, 0, 0, 1, g + 14);
}

static inline void block(In x, Ints, Out g) {
    const double a = x[1];
    double t[400], xb = 1, ab = 0;
    t[0] = x[0];
    for (int i = 1; i < 400; i++) t[i] = t[i - 1] * a;
    for (int i = 399; i >= 0; i--) ab += xb * t[i], xb *= a;
    g[0] = xb, g[1] = ab;
}

static inline void sum(In, Ints ip, Out g) { for (Int i = 0; i < ip[0]; i++) g[i] = 1.0; }

static inline void dot(In x, Ints ip, Out g) {
    const Int n = ip[0];
    for (Int i = 0; i < n; i++) g[i] = x[n + i], g[n + i] = x[i];
}

static inline void sumsin(In x, Ints ip, Out g) { for (Int i = 0; i < ip[0]; i++) g[i] = std::cos(x[i]); }

static inline void sce(In x, Ints ip, Out g) {
    for (Int i = 0; i < ip[0]; i++) {
        const double e = std::exp(x[i]), c = std::cos(e);
        g[i] = -std::cos(c) * std::sin(e) * e;
    }
}

static inline void smv(In x, Ints ip, Out g) {
    const Int n = ip[0];
    const double *v = x + n * n;
    double *gv = g + n * n;
    for (Int j = 0; j < n; j++) gv[j] = 0;
    for (Int i = 0; i < n; i++)
        for (Int j = 0; j < n; j++) g[i * n + j] = v[j], gv[j] += x[i * n + j];
}

static inline void kron(In x, Ints ip, Out g) {
    const Int m = ip[0], q = ip[1];
    const double *y = x + m * m;
    double *gy = g + m * m;
    for (Int i = 0; i < m * m + q * q; i++) g[i] = 0;
    for (Int j = 0; j < m; j++)
        for (Int l = 0; l < q; l++)
            for (Int i = 0; i < m; i++) {
                const double xij = x[j * m + i];
                double s = 0;
                for (Int k = 0; k < q; k++) gy[l * q + k] += xij, s += y[l * q + k];
                g[j * m + i] += s;
            }
}

// From the cotangent of a layer's sums: gradients of weights and bias, and what its input receives.
static inline void dense_back(const double *sb, const double *w, const double *in, double *gw, double *gb, double *inb,
                              Int rows, Int cols) {
    for (Int i = 0; i < rows; i++) {
        const double t = gb[i] = sb[i];
        for (Int j = 0; j < cols; j++) gw[i * cols + j] = t * in[j], inb[j] += t * w[i * cols + j];
    }
}

static inline void nn(In x, Ints ip, Out g) {
    const Network net(ip);
    const auto p = net.parts<const double *>(x);
    const auto gp = net.parts<double *>(g);
    double h1[128], h2[128], o[32], h1b[128] = {}, h2b[128] = {}, ob[32], top = 0, f = 0, fb = 0, topb = 0;
    dense(p.w1, p.b1, p.in, h1, net.n1, net.ni, true);
    dense(p.w2, p.b2, h1, h2, net.n2, net.n1, true);
    dense(p.w3, p.b3, h2, o, net.no, net.n2, false);
    Int at = -1;
    for (Int i = 0; i < net.no; i++) if (o[i] > top) top = o[i], at = i;
    for (Int i = 0; i < net.no; i++) f += o[i] = std::exp(o[i] - top);
    for (Int i = 0; i < net.no; i++) {
        const double y = o[i] / f;
        ob[i] = 2.0 * y / f, fb -= 2.0 * y * y / f;
    }
    for (Int i = 0; i < net.no; i++) topb -= ob[i] = (ob[i] + fb) * o[i];
    if (at >= 0) ob[at] += topb;
    dense_back(ob, p.w3, h2, gp.w3, gp.b3, h2b, net.no, net.n2);
    for (Int i = 0; i < net.n2; i++) h2b[i] = h2[i] > 0 ? h2b[i] : 0.0;
    dense_back(h2b, p.w2, h1, gp.w2, gp.b2, h1b, net.n2, net.n1);
    for (Int i = 0; i < net.n1; i++) h1b[i] = h1[i] > 0 ? h1b[i] : 0.0;
    for (Int j = 0; j < net.ni; j++) gp.in[j] = 0;
    dense_back(h1b, p.w1, p.in, gp.w1, gp.b1, gp.in, net.n1, net.ni);
}

// The adjoint of c = a b: adds to that of b, writes that of a, eight sums at a time so that none waits for itself.
static inline void product_back(const double *cb, const double *a, const double *b, double *bb, double *ab, Int rows,
                                Int inner, Int n) {
    for (Int i = 0; i < rows; i++) {
        const double *c = cb + i * n;
        for (Int k = 0; k < inner; k++)
            for (Int j = 0; j < n; j++) bb[k * n + j] += a[i * inner + k] * c[j];
        Int k = 0;
        for (; k + 8 <= inner; k += 8) {
            double s[8] = {};
            for (Int j = 0; j < n; j++)
                for (int q = 0; q < 8; q++) s[q] += b[(k + q) * n + j] * c[j];
            memcpy(ab + i * inner + k, s, sizeof s);
        }
        for (; k < inner; k++) {
            double s = 0;
            for (Int j = 0; j < n; j++) s += b[k * n + j] * c[j];
            ab[i * inner + k] = s;
        }
    }
}

static inline void mlp(In x, Ints ip, Out g) {
    const Int a = ip[0], b = ip[1], c = ip[2], n = ip[3];
    const double *w2 = x, *w1 = w2 + a * b, *y = w1 + b * c, *in = y + a * n;
    double *gw2 = g, *gw1 = gw2 + a * b, *gy = gw1 + b * c, *gin = gy + a * n;
    double *h = (double *)malloc(b * n * sizeof(double)), *o = (double *)malloc(a * n * sizeof(double));
    double *hb = (double *)calloc(b * n, sizeof(double));
    product(w1, in, h, b, c, n);
    for (Int i = 0; i < b * n; i++) h[i] = h[i] >= 0 ? h[i] : 0.0;
    product(w2, h, o, a, b, n);
    for (Int i = 0; i < a * n; i++) gy[i] = 2.0 * (y[i] - o[i]), o[i] = -gy[i];
    product_back(o, w2, h, hb, gw2, a, b, n);
    for (Int i = 0; i < b * n; i++) hb[i] = h[i] > 0 ? hb[i] : 0.0;
    memset(gin, 0, c * n * sizeof(double));
    product_back(hb, w1, in, gin, gw1, b, c, n);
    free(h);
    free(o);
    free(hb);
}

static inline void spdot(In x, Ints ip, Out g) {
    const Int n = ip[0];
    const Int *ca = ip + 1, *ra = ca + n + 1, *cb = ra + ca[n], *rb = cb + n + 1;
    const double *a = x, *b = x + ca[n];
    double *ga = g, *gb = g + ca[n];
    memset(g, 0, (ca[n] + cb[n]) * sizeof(double));
    for (Int j = 0; j < n; j++) {
        Int i = ca[j], k = cb[j];
        while (i < ca[j + 1] && k < cb[j + 1]) {
            if (ra[i] == rb[k]) ga[i] = b[k], gb[k++] = a[i++];
            else if (ra[i] < rb[k]) i++;
            else k++;
        }
    }
}

static inline void spmv(In x, Ints ip, Out g) {
    const Int n = ip[0], *c = ip + 1, *rows = c + n + 1;
    const double *v = x + c[n];
    double y[1024];
    scatter(x, v, c, rows, n, y);
    for (Int i = 0; i < n; i++) y[i] *= 2;
    for (Int j = 0; j < n; j++) {
        double s = 0;
        for (Int k = c[j]; k < c[j + 1]; k++) g[k] = y[rows[k]] * v[j], s += x[k] * y[rows[k]];
        g[c[n] + j] = s;
    }
}

static inline void embed(In x, Ints ip, Out g) {
    const Int d = ip[0], n[2] = {ip[1], ip[2]};
    const Int *pairs = ip + 3, *pair = pairs;
    double mean[2], length[64];
    Int at = 0;
    for (int q = 0; q < 2; q++) {
        double lengths = 0;
        for (Int e = 0; e < n[q]; e++, pair += 2) {
            double s = 0;
            for (Int k = 0; k < d; k++) {
                const double t = x[pair[0] * d + k] - x[pair[1] * d + k];
                s += t * t;
            }
            lengths += length[at++] = std::sqrt(s);
        }
        mean[q] = lengths / (double)n[q];
    }
    const double apart = mean[0] - mean[1] + 0.1, e = apart > 0 ? std::exp(apart) : 0.0;
    for (Int i = 0; i < 10 * d; i++) g[i] = 0;
    pair = pairs, at = 0;
    for (int q = 0; q < 2; q++) {
        const double size = (double)n[q], c = size / (size - 1), meanb = -2.0 * mean[q] * c + (q ? -e : e);
        for (Int i = 0; i < n[q]; i++, pair += 2) {
            const double w = 2.0 * (c / size + meanb / size * 0.5 / length[at++]);
            for (Int k = 0; k < d; k++) {
                const double t = w * (x[pair[0] * d + k] - x[pair[1] * d + k]);
                g[pair[0] * d + k] += t, g[pair[1] * d + k] -= t;
            }
        }
    }
}

static inline void part(In x, Ints ip, Out g) {
    for (Int k = 0; k < ip[0]; k++) {
        double px = x[4 * k], py = x[4 * k + 1], vx = x[4 * k + 2], vy = x[4 * k + 3];
        for (Int s = 0; s < ip[1]; s++) {
            const double ax = -0.5 * px + -0.2 * vx, ay = -0.5 * py + -0.2 * vy;
            px += PART_DT * vx, py += PART_DT * vy, vx += PART_DT * ax, vy += PART_DT * ay;
        }
        double pxb = py, pyb = px, vxb = 0, vyb = 0;
        for (Int s = 0; s < ip[1]; s++) {
            const double axb = PART_DT * vxb, ayb = PART_DT * vyb;
            vxb += PART_DT * pxb + -0.2 * axb, vyb += PART_DT * pyb + -0.2 * ayb;
            pxb += -0.5 * axb, pyb += -0.5 * ayb;
        }
        g[4 * k] = pxb, g[4 * k + 1] = pyb, g[4 * k + 2] = vxb, g[4 * k + 3] = vyb;
    }
}

// The cotangent of a point from that of its slope; adds to those of the parameters.
static inline Point slope_back(const Point &p, const Lorenz &l, const Point &kb, Lorenz &lb) {
    lb.sigma += (p.y - p.x) * kb.x, lb.rho += p.x * kb.y, lb.beta -= p.z * kb.z;
    return {(l.rho - p.z) * kb.y + p.y * kb.z - l.sigma * kb.x, l.sigma * kb.x - kb.y + p.x * kb.z,
            -p.x * kb.y - l.beta * kb.z};
}

static inline void lorenz(In x, Ints ip, Out g) {
    const Int n = ip[0];
    Point p = {x[0], x[1], x[2]};
    const Lorenz l = {x[3], x[4], x[5]};
    Point *states = (Point *)malloc(n * sizeof(Point));
    for (Int i = 0; i < n; i++) states[i] = p, p = step(p, l);
    Point b = {1, 1, 1};
    Lorenz lb = {0, 0, 0};
    for (Int i = n - 1; i >= 0; i--) {
        const Point p1 = states[i], k1 = slope(p1, l), p2 = ahead(p1, 0.5 * H, k1), k2 = slope(p2, l);
        const Point p3 = ahead(p1, 0.5 * H, k2), k3 = slope(p3, l), p4 = ahead(p1, H, k3);
        const Point u = {H / 6.0 * b.x, H / 6.0 * b.y, H / 6.0 * b.z}, u2 = {2 * u.x, 2 * u.y, 2 * u.z};
        const Point b4 = slope_back(p4, l, u, lb), b3 = slope_back(p3, l, ahead(u2, H, b4), lb);
        const Point b2 = slope_back(p2, l, ahead(u2, 0.5 * H, b3), lb), b1 = slope_back(p1, l, ahead(u, 0.5 * H, b2), lb);
        b = {b.x + b4.x + b3.x + b2.x + b1.x, b.y + b4.y + b3.y + b2.y + b1.y, b.z + b4.z + b3.z + b2.z + b1.z};
    }
    free(states);
    g[0] = b.x, g[1] = b.y, g[2] = b.z, g[3] = lb.sigma, g[4] = lb.rho, g[5] = lb.beta;
}

static inline void accelerations_back(Int n, const double *q, const double *m, const double *ab, double *qb, double *mb) {
    for (Int i = 0; i < n; i++)
        for (Int j = i + 1; j < n; j++) {
            const double *ai = ab + 3 * i, *aj = ab + 3 * j;
            const double dx = q[3 * i] - q[3 * j], dy = q[3 * i + 1] - q[3 * j + 1], dz = q[3 * i + 2] - q[3 * j + 2];
            const double d2 = dx * dx + dy * dy + dz * dz, w = 1.0 / (d2 * std::sqrt(d2)), wj = m[j] * w, wi = m[i] * w;
            const double wjb = -(dx * ai[0] + dy * ai[1] + dz * ai[2]), wib = dx * aj[0] + dy * aj[1] + dz * aj[2];
            mb[j] += wjb * w, mb[i] += wib * w;
            const double d2b = -3.0 * w / d2 * (wjb * m[j] + wib * m[i]);
            const double xb = aj[0] * wi - ai[0] * wj + d2b * dx, yb = aj[1] * wi - ai[1] * wj + d2b * dy;
            const double zb = aj[2] * wi - ai[2] * wj + d2b * dz;
            qb[3 * i] += xb, qb[3 * i + 1] += yb, qb[3 * i + 2] += zb;
            qb[3 * j] -= xb, qb[3 * j + 1] -= yb, qb[3 * j + 2] -= zb;
        }
}

static inline void planets(In x, Ints ip, Out g) {
    const Int n = ip[0], steps = ip[1], d = 3 * n;
    const double *m = x + 2 * d;
    double q[24], v[24], a[24], qb[24], vb[24], ab[24], mb[8];
    double *kept = (double *)malloc((steps + 1) * d * sizeof(double));
    for (Int i = 0; i < d; i++) q[i] = x[i], v[i] = x[d + i];
    accelerations(n, q, m, a);
    memcpy(kept, q, d * sizeof(double));
    for (Int t = 0; t < steps; t++) {
        for (Int i = 0; i < d; i++) v[i] += (0.5 * DT) * a[i], q[i] += DT * v[i];
        memcpy(kept + (t + 1) * d, q, d * sizeof(double));
        accelerations(n, q, m, a);
        for (Int i = 0; i < d; i++) v[i] += (0.5 * DT) * a[i];
    }
    for (Int i = 0; i < d; i++) qb[i] = 2.0 * q[i], vb[i] = 0, ab[i] = 0;
    for (Int i = 0; i < n; i++) mb[i] = 0;
    for (Int t = steps - 1; t >= 0; t--) {
        for (Int i = 0; i < d; i++) ab[i] += (0.5 * DT) * vb[i];
        accelerations_back(n, kept + (t + 1) * d, m, ab, qb, mb);
        for (Int i = 0; i < d; i++) vb[i] += DT * qb[i], ab[i] = (0.5 * DT) * vb[i];
    }
    accelerations_back(n, kept, m, ab, qb, mb);
    for (Int i = 0; i < d; i++) g[i] = qb[i], g[d + i] = vb[i];
    for (Int i = 0; i < n; i++) g[2 * d + i] = mb[i];
    free(kept);
}

} // namespace adjoint

#define ENTRY extern "C" __attribute__((visibility("default"), noinline))
#define PROBLEM(name)                                                                                                         \
    ENTRY void p_##name(In x, Ints ip, Out y) { y[0] = value::name(x, ip); }                                                  \
    ENTRY void h_##name(In x, Ints ip, Out g) { adjoint::name(x, ip, g); }
PROBLEM(mul) PROBLEM(block) PROBLEM(sum) PROBLEM(dot) PROBLEM(sumsin) PROBLEM(sce) PROBLEM(smv) PROBLEM(kron) PROBLEM(nn)
PROBLEM(mlp) PROBLEM(spdot) PROBLEM(spmv) PROBLEM(embed) PROBLEM(part) PROBLEM(lorenz) PROBLEM(planets)
ENTRY void p_rot(In x, Ints, Out y) { value::rot(x, y); }
ENTRY void h_rot(In x, Ints ip, Out g) { adjoint::rot(x, ip, g); }

// Seconds a call.
ENTRY double time_calls(void (*f)(In, Ints, Out), const double *x, const Int *ip, double *y, Int calls) {
    timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (Int i = 0; i < calls; i++) {
        f(x, ip, y);
        __asm__ volatile("" ::: "memory");
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    return ((b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec)) / calls;
}
