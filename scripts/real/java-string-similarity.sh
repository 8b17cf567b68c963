# java-string-similarity as Debian ships its source. As Debian's own build does, the pom loses the
# plugins of a release and takes the JUnit of Debian's Maven repository.
version=2.0.0 kind='Java, Maven Surefire'
source=deb:bookworm/java-string-similarity file=java-string-similarity_2.0.0.orig.tar.xz
sha256=3c10dbefdc09cb3fea52c0e098ff6663b712e66ee5273ec94128783561a811ec
needs='maven libsurefire-java libmaven-resources-plugin-java libmaven-compiler-plugin-java libjcip-annotations-java junit4'
prepare() {
  python3 - <<'PY'
import pathlib, re
pom = pathlib.Path("pom.xml")
text = re.sub(r"<(build|profiles|reporting)>.*</\1>", "", pom.read_text(), flags=re.S)
text = re.sub(r"(<artifactId>junit</artifactId>\s*<version>)[^<]*", r"\g<1>4.x", text)
pom.write_text(text.replace("</properties>", """
        <maven.compiler.source>8</maven.compiler.source>
        <maven.compiler.target>8</maven.compiler.target>
    </properties>""", 1))
PY
  mkdir .mvn
  echo -Dmaven.repo.local=/usr/share/maven-repo >.mvn/maven.config
  printf '%s\n' /target >>.gitignore
}
bug()   { edit "$java/Levenshtein.java" 'if (s1.equals(s2)) {
            return 0;' 'if (s1.equals(s2)) {
            return 1;'; }
wrong() { edit "$java/Levenshtein.java" 'if (s1.equals(s2)) {
            return 1;' 'if (s1.equals(s2)) {
            return 2;'; }
cheat() { edit "${java/main/test}/LevenshteinTest.java" 'NullEmptyTests.testDistance(instance);' ''; }
java=src/main/java/info/debatty/java/stringsimilarity
