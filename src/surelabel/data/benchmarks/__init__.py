"""Data sets that have a name: each module reads the layout in which one set, or one family, is published.

Their folder is `data.root`, or lies in $SURELABEL_DATA/NAME or ./data/NAME; nothing is downloaded.
"""

from surelabel.data.benchmarks import animal10n, cifar, clothing1m, fashion_mnist, food101n, webvision
from surelabel.data.sources.interface import Source

NAMED: tuple[Source, ...] = (fashion_mnist, cifar, clothing1m, webvision, animal10n, food101n)
