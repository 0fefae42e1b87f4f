"""Everything that pip needs to know is in settings.ini; data/ and nbs/ travel inside the wheel's package."""
import shutil
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
parser = ConfigParser(delimiters=['='])
parser.read(HERE / 'settings.ini', encoding='utf-8')
cfg = parser['DEFAULT']


class BuildWithData(build_py):
    """Copies the notebooks and the sample into the package that is being built, not into an editable install."""

    def run(self):
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib) / cfg['lib_path']
        for folder, pattern in (('data', '*.json'), ('data', '*.xz'), ('nbs', '*.ipynb')):
            for file in sorted(path for path in (HERE / folder).rglob(pattern) if '.ipynb_checkpoints' not in path.parts):
                target = package / f'_{folder}' / file.relative_to(HERE / folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, target)


setup(
    name=cfg['lib_name'],
    version=cfg['version'],
    description=cfg['description'],
    long_description=(HERE / 'README.md').read_text(encoding='utf-8'),
    long_description_content_type='text/markdown',
    author=cfg['author'],
    license='Apache-2.0',
    url=cfg['git_url'],
    keywords=cfg['keywords'],
    packages=find_packages(include=[cfg['lib_path'], f"{cfg['lib_path']}.*"]),
    python_requires=f">={cfg['min_python']}",
    install_requires=cfg['requirements'].split(),
    extras_require={name.removesuffix('_requirements'): cfg[name].split() for name in cfg if name.endswith('_requirements')},
    entry_points={'console_scripts': cfg['console_scripts'].split()},
    cmdclass={'build_py': BuildWithData},
    zip_safe=False,
)
