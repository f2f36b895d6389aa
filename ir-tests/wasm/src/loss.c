/* The sum of squared differences between measurements y at times t and a damped oscillation whose parameters p are its
 * amplitude, decay, frequency and phase. As plain as a C file can be: what the documentation differentiates.
 */
#include <math.h>

__attribute__((export_name("loss")))
double loss(const double *p, int n, const double *t, const double *y) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double error = p[0] * exp(-p[1] * t[i]) * cos(p[2] * t[i] + p[3]) - y[i];
        sum += error * error;
    }
    return sum;
}
