/* A neural network whose layers are objects: a linked list on the heap, each with pointers to the functions that do its
 * work and to the parameters that are its share of one array.
 */
#include "program.h"
#include <stdlib.h>

typedef struct Layer Layer;

struct Layer {
    int inputs, outputs;
    const double *weights;
    double *values;
    void (*apply)(const Layer *layer, const double *inputs);
    double (*activation)(double);
    Layer *next;
};

static double identity(double x) { return x; }

static double rectify(double x) { return x > 0 ? x : 0; }

static double swish(double x) { return x / (1 + exp(-x)); }

static double squash(double x) { return tanh(x); }

static double (*const activations[])(double) = {identity, rectify, swish, squash};

static void apply_dense(const Layer *layer, const double *inputs) {
    const double *weight = layer->weights;
    for (int i = 0; i < layer->outputs; i++) {
        double sum = *weight++;
        for (int j = 0; j < layer->inputs; j++)
            sum += *weight++ * inputs[j];
        layer->values[i] = layer->activation(sum);
    }
}

static void apply_diagonal(const Layer *layer, const double *inputs) {
    for (int i = 0; i < layer->outputs; i++)
        layer->values[i] = layer->activation(layer->weights[i] * inputs[i]);
}

static void apply_softmax(const Layer *layer, const double *inputs) {
    double sum = 0;
    for (int i = 0; i < layer->outputs; i++)
        sum += layer->values[i] = exp(inputs[i]);
    for (int i = 0; i < layer->outputs; i++)
        layer->values[i] /= sum;
}

/* Kinds of layers: 0..3 dense with an activation, 4..7 diagonal with one, 8 softmax. */
static const double *make(Layer *layer, int kind, int inputs, int outputs, const double *weights) {
    layer->inputs = inputs;
    layer->outputs = outputs;
    layer->weights = weights;
    layer->values = malloc(sizeof(double) * outputs);
    layer->activation = activations[kind % 4];
    layer->next = NULL;
    if (kind < 4) {
        layer->apply = apply_dense;
        return weights + (inputs + 1) * outputs;
    }
    if (inputs != outputs)
        __builtin_trap();
    layer->apply = kind < 8 ? apply_diagonal : apply_softmax;
    return kind < 8 ? weights + outputs : weights;
}

/* Half the squared distance to the target. widths[n + 1], kinds[n]; parameters of all layers one after the other. */
EXPORT(network_loss)
double network_loss(int n, const int *widths, const int *kinds, const double *parameters, const double *input,
                    const double *target) {
    Layer *first = NULL, **link = &first;
    for (int i = 0; i < n; i++) {
        Layer *layer = malloc(sizeof(Layer));
        parameters = make(layer, kinds[i], widths[i], widths[i + 1], parameters);
        *link = layer;
        link = &layer->next;
    }
    const double *values = input;
    for (const Layer *layer = first; layer; layer = layer->next) {
        layer->apply(layer, values);
        values = layer->values;
    }
    double loss = 0;
    for (int i = 0; i < widths[n]; i++)
        loss += (values[i] - target[i]) * (values[i] - target[i]);
    while (first) {
        Layer *next = first->next;
        free(first->values);
        free(first);
        first = next;
    }
    return loss / 2;
}
