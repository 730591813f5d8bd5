mod attribution;
mod bias;
mod coverage;
mod edges;
mod scenario;
mod shapes;
