/* Eigen: a Cholesky factor of a covariance, least squares by Householder's reflections, a determinant by LU.
 */
#include "program.h"
#include <Eigen/Dense>
#include <cmath>

using Eigen::Map;
using Eigen::MatrixXd;
using Eigen::VectorXd;

/* Minus the log-likelihood of n observations under a Gaussian process: size, length and noise of its covariance. */
extern "C" EXPORT(likelihood) double likelihood(int n, const double *x, const double *y, const double *parameters) {
    const double size = parameters[0], length = parameters[1], noise = parameters[2];
    MatrixXd covariance(n, n);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            const double apart = (x[i] - x[j]) / length;
            covariance(i, j) = size * size * std::exp(-0.5 * apart * apart) + (i == j ? noise * noise : 0.0);
        }
    const Eigen::LLT<MatrixXd> factored(covariance);
    const Map<const VectorXd> observed(y, n);
    const double determinant = MatrixXd(factored.matrixL()).diagonal().array().log().sum();
    return 0.5 * observed.dot(factored.solve(observed)) + determinant;
}

/* The sum of squares that is left of b when A, n by m and by columns, has been fitted to it, and a penalty. */
extern "C" EXPORT(residual) double residual(int n, int m, const double *a, const double *b) {
    const Map<const MatrixXd> matrix(a, n, m);
    const Map<const VectorXd> wanted(b, n);
    const VectorXd fitted = matrix.householderQr().solve(wanted);
    return (matrix * fitted - wanted).squaredNorm() + 0.25 * fitted.squaredNorm();
}

/* The logarithm of the determinant's square, of a matrix of n by n. */
extern "C" EXPORT(determinant) double determinant(int n, const double *a) {
    const double found = MatrixXd(Map<const MatrixXd>(a, n, n)).partialPivLu().determinant();
    return std::log(found * found);
}
