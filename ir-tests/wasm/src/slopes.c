/* A curve fitted by Gauss-Newton, whose slopes are forward differences: the answer is as exact as
 * those, and the objective is noisy. */
#include "program.h"

EXPORT(fitted) double fitted(int n, const double *y) {
    double size = 1, decay = 1;
    for (int turn = 0; turn < 60; turn++) {
        double h = 1.5e-8, aa = 0, ab = 0, bb = 0, ra = 0, rb = 0;
        for (int i = 0; i < n; i++) {
            double e = size * exp(-decay * i), r = e - y[i];
            double da = ((size + size * h) * exp(-decay * i) - e) / (size * h);
            double db = (size * exp(-(decay + decay * h) * i) - e) / (decay * h);
            aa += da * da;
            ab += da * db;
            bb += db * db;
            ra += da * r;
            rb += db * r;
        }
        double d = aa * bb - ab * ab, by_size = (ra * bb - rb * ab) / d, by_decay = (rb * aa - ra * ab) / d;
        size -= by_size;
        decay -= by_decay;
        if (fabs(by_size) + fabs(by_decay) < 1e-7) break;
    }
    return size + 2 * decay;
}
