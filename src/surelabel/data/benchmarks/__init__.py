"""Published data sets that are known by name; each module reads the layout of one set or family.

A set's folder is `data.root`, or $SURELABEL_DATA/NAME or ./data/NAME; nothing is downloaded.
"""

from surelabel.data.benchmarks.animal10n import ANIMAL10N
from surelabel.data.benchmarks.cifar import CIFAR
from surelabel.data.benchmarks.clothing1m import CLOTHING1M
from surelabel.data.benchmarks.fashion_mnist import FASHION_MNIST
from surelabel.data.benchmarks.food101n import FOOD101N
from surelabel.data.benchmarks.webvision import WEBVISION
from surelabel.data.sources.interface import Source

BENCHMARKS: tuple[Source, ...] = (FASHION_MNIST, *CIFAR, CLOTHING1M, WEBVISION, ANIMAL10N, FOOD101N)
